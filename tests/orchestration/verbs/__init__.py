"""What a person can have done, by command and by job."""
