"""Pipelined execution: subtasks that run continuously and send each other buffers, watermarks and barriers."""
