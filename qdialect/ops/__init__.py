"""What is known of ops of any dialect: one model of each."""
