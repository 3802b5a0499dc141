-- Whether any policy of a row's type has a rollback: it may have got one after the row's last attempt. A rollback goes by that
-- as well.
EXISTS (SELECT 1 FROM rollback_policy WHERE type = {of}.type)
