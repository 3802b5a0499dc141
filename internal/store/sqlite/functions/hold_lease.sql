-- INSERT INTO hold_lease (name, fence) raises unless the named lease is held with that fence. Inside a write transaction it stays
-- held until that ends, even if it expires: there is no other writer.
CREATE VIEW hold_lease AS
    SELECT name, fence FROM lease;

CREATE TRIGGER hold_lease_insert INSTEAD OF INSERT ON hold_lease
BEGIN
    {lease_is_held};
END;
