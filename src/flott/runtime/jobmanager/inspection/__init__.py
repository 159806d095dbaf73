"""Questions about the state and the records of a job that need its classes: answered in a process of their own."""
