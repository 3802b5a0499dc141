-- INSERT INTO release_lease (name, fence) gives a named lease up, and raises unless it is held with that fence. Once this is
-- committed, the next who asks gets it.
CREATE VIEW release_lease AS
    SELECT name, fence FROM lease;

CREATE TRIGGER release_lease_insert INSTEAD OF INSERT ON release_lease
BEGIN
    {lease_is_held};
    DELETE FROM lease WHERE fence = NEW.fence;
END;
