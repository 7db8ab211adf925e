"""What all kernels share: how they are compiled and cached, the types of their arguments, reading and copying bytes."""
