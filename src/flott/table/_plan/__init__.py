"""From a resolved query to a program: logical plan, rules, changelog modes, physical plan."""
