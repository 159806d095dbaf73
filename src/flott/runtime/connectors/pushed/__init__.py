"""Sources that are sent messages and cannot ask for them again: sockets, websockets, Server-Sent Events.

stream      what one connection must do
receiver    the thread that reads from it on the driver, and connects again
enumerator  puts messages into slices, which are durable before an epoch runs
reader      decodes the messages of a slice in a task
"""
