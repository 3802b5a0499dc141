package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of a Diagnosis. Each of its parts is read within DiagnosisTime.
const (
	DiagnosisListed    = 100             // things of a kind that are listed; one more means that there are more
	DiagnosisWaiting   = 1_000           // waiting rows of a type that are counted, likewise
	DiagnosisSequences = 10_000          // sequences with failures that are looked at
	DiagnosisTypes     = 2000            // types of waiting rows that are looked at, of each class of rows
	DiagnosisStalls    = 5000            // attempts that are looked at, those of the newest tasks
	DiagnosisTime      = 3 * time.Second // for one part
	DiagnosisAgents    = time.Hour       // sessions that are absent, and stalled attempts, are read for so long
	DiagnosisBehind    = time.Minute     // a schedule that is due for longer is behind
)

// Diagnosis is what a store knows of its own health and of the agents on it: ops.Examine says what follows from it. Times are the store's clock.
type Diagnosis struct {
	Now time.Time

	// Agents are the present sessions, and those that were not seen for longer than their presence, and within DiagnosisAgents, where no newer session
	// has their name.
	Agents []AgentInfo
	// Fresh says that no agent has run on the store yet: it has no session, and a session stays for a week, longer if no agent runs.
	Fresh bool
	// Declared is what present sessions declare.
	Declared  []DeclaredBlock
	Pauses    []TypePause
	Orphans   []WaitingType
	Regions   []RegionOrphan
	Schedules []IdleSchedule
	Sequences []BlockedSequence
	// Rollbacks are tasks whose rollback has failed, the newest first.
	Rollbacks []FailedRollback
	Stalls    []StalledType

	Postgres *PostgresHealth // nil: it is another store
	File     *FileHealth     // nil: it is another store

	// Unseen are the parts that could not be read; what they would have filled in is empty.
	Unseen []UnseenPart
	// Grant is the statement that lets the role read the parts for which it lacks a privilege; "": it lacks none.
	Grant string
}

// DiagnosisPart names what is read at once.
type DiagnosisPart string

// The parts of a Diagnosis.
const (
	PartServer       DiagnosisPart = "server" // or the file
	PartAgents       DiagnosisPart = "agents"
	PartDeclarations DiagnosisPart = "declarations"
	PartPauses       DiagnosisPart = "pauses"
	PartOrphans      DiagnosisPart = "orphans"
	PartRegions      DiagnosisPart = "regions"
	PartSchedules    DiagnosisPart = "schedules"
	PartSequences    DiagnosisPart = "sequences"
	PartRollbacks    DiagnosisPart = "rollbacks"
	PartStalls       DiagnosisPart = "stalls"
)

// UnseenPart is a part that could not be read.
type UnseenPart struct {
	Part   DiagnosisPart
	Denied bool // the role lacks a privilege; else it took longer than DiagnosisTime
}

// WaitingType is a type of waiting rows that no present session with workers declares. Rows that wait for a lock, their turn or others do not
// count.
type WaitingType struct {
	Type    string
	Waiting int // DiagnosisWaiting + 1 at most
}

// IdleSchedule is a schedule that does not fire when it should.
type IdleSchedule struct {
	Name     string
	NextAt   *time.Time // when an agent should have looked at it; it is behind if nothing else is set
	ParkedAt *time.Time // no present session declares it
	PausedAt *time.Time
	PausedBy string
	Invalid  string // why agents cannot use it
}

// BlockedSequence is a sequence whose rows wait until a failure is resolved.
type BlockedSequence struct {
	Type, Sequence string
	Task           task.ID    // that has failed
	Since          *time.Time // when it did; nil: its row is past its retention
}

// FailedRollback is a task whose rollback has failed.
type FailedRollback struct {
	Task task.ID
	Type string
	At   time.Time
}

// StalledType is a type of which attempts have stalled within DiagnosisAgents, among the attempts that were looked at.
type StalledType struct {
	Type   string
	Stalls int
	Last   time.Time // the newest
}

// PostgresHealth is what a server says of itself.
type PostgresHealth struct {
	ReadOnly string // why it takes no writes; "": it does. Nothing else of the Diagnosis is known then

	Version  int // server_version_num
	Role     string
	Hidden   int      // sessions of the database of which the role may not see what they do
	IsAgent  bool     // the role may change rows, as agents do
	Super    bool     // the role is a superuser
	Owner    bool     // the role owns the tables, or may act for their owner
	Lacking  []string // tables and functions that such a role may not use, DiagnosisListed at most
	Schema   string
	Archive  []time.Time // days, today or tomorrow, that have no partition
	Silent   bool        // notifications do not arrive, although they are to be used
	Oldest   *Transaction
	Slot     *ReplicationSlot
	Unused   []UnusedSlot // that keep the most of the write-ahead log first
	Dead     int64        // rows of the hot table, as estimated
	Live     int64
	Vacuumed *time.Time // the hot table, last
	// AutovacuumOff says where autovacuum is turned off: "server", "statistics" (which it needs) or "table"; "": nowhere.
	AutovacuumOff string
	// The connections that count against three limits, and the limits; a limit of -1 is none.
	Server, Database, OfRole Connections
}

// Transaction is the oldest one that is open in the database.
type Transaction struct {
	Since       time.Time
	PID         int    // of the session; 0: the transaction is prepared
	Prepared    string // its name; "": a session has it
	User        string
	Application string
	State       string // of the session: active, idle in transaction, …
}

// DiagnosisLog is how many bytes of the write-ahead log an unused replication slot may keep. One that keeps less is listed where the server
// would keep less without it (max_wal_size).
const DiagnosisLog = 1 << 30

// ReplicationSlot is the one that keeps the most dead rows from being removed.
type ReplicationSlot struct {
	Name         string
	Active       bool
	Transactions int64 // that have begun since the rows died which it keeps
}

// UnusedSlot is a replication slot that is not in use, and keeps much of the write-ahead log, or has lost what it needs of it.
type UnusedSlot struct {
	Name  string
	Bytes int64 // of the log that it keeps; 0: it has lost it
	Lost  bool
}

// Connections are those that are in use of a limit.
type Connections struct{ Used, Most int }

// FileHealth is what is known of the file of an embedded store.
type FileHealth struct {
	Path string
	// Open are the files of the store that others may use, with their modes, and Mode is what each may have.
	Open []OpenFile
	Mode uint32
	// Unchecked are the bytes of the write-ahead log that could not be moved into the file, as a reader still needs what they replace.
	Unchecked int64
	// Free and Size are of the file system, in bytes, as far as this user may use it; 0: not known.
	Free, Size uint64
}

// OpenFile is a file that more users may use than should.
type OpenFile struct {
	Path string
	Mode uint32
}

// SortedWaiting lists types by name with their counts, each cut to DiagnosisWaiting + 1.
func SortedWaiting(counts map[string]int) []WaitingType {
	var list []WaitingType
	for typ, n := range counts {
		list = append(list, WaitingType{typ, min(n, DiagnosisWaiting+1)})
	}
	slices.SortFunc(list, func(a, b WaitingType) int { return cmp.Compare(a.Type, b.Type) })
	return list
}

// Vanished returns those of all sessions, by name and the newest first, that are absent, were seen within DiagnosisAgents, and are the
// newest of their name: what has come after another is in its place, also if it has exited since.
func Vanished(all []AgentInfo, now time.Time) (list []AgentInfo) {
	for i, a := range all {
		newest := i == 0 || all[i-1].Name != a.Name
		if newest && a.State == AgentAbsent && now.Sub(a.SeenAt) < DiagnosisAgents {
			list = append(list, a)
		}
	}
	return list
}
