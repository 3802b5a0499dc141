-- Whether a row can be rolled back: the policy that its last attempt started with has a rollback, or any other policy of its
-- type, which may have got one later.
(EXISTS (SELECT 1 FROM rollback_policy WHERE hash = {of}.policy)
        OR EXISTS (SELECT 1 FROM rollback_policy WHERE type = {of}.type))
