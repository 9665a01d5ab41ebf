"""The tasks that sizes are measured on, one file each."""
