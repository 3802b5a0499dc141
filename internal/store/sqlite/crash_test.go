package sqlite

const childWork = "LEASEHOLD_SQLITE_CHILD"

func child(string) int { return 1 }
