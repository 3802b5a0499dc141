-- Whether the policy that a row's last attempt started with has a rollback. A cancellation goes by that alone (task.RollsBack).
EXISTS (SELECT 1 FROM rollback_policy WHERE hash = {of}.policy)
