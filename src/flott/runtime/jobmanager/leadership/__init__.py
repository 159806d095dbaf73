"""Which of several JobManagers leads: agreed on through ZooKeeper, or through lease files on shared storage."""
