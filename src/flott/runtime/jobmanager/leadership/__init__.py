"""Which of several JobManagers leads: agreed on through ZooKeeper, or through leases on shared storage."""
