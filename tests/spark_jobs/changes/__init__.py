"""Net changes of images."""
