"""What message queues have in common: a source whose messages travel in the plan, and sinks that publish messages.

    message      a message, and many of them packed into a JSON value
    recent_ids   the ids of messages that were processed lately
    client       what the client of a broker must do for a source
    receiver     the thread that receives messages on the driver
    enumerator   puts received messages into slices, acknowledges them after the checkpoint
    reader       decodes the messages of a slice in a task
    publishing   writers that publish at once, and writers whose records are published after the checkpoint

Decision 0029 says why it is done this way.
"""
