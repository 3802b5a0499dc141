package postgres

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// parameters are asked for when a connection is made, so nothing depends on what a session did before. A pooler may
// refuse them; all works without, less well guarded.
func parameters() map[string]string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return map[string]string{
		"application_name":                    "leasehold",
		"search_path":                         searchPath,
		"statement_timeout":                   ms(statementTimeout),
		"idle_in_transaction_session_timeout": ms(4 * statementTimeout),
		"synchronous_commit":                  "on", // a claim lost in a crash would hand its fence out twice
		// One plan for each statement, made once, and not made for the ten rows that the table had at that time.
		"plan_cache_mode":   "force_generic_plan",
		"enable_seqscan":    "off",
		"enable_bitmapscan": "off", // a bitmap is read whole and sorted before the first row of it is claimed
		"jit":               "off",
		// What a function has locked, its next statement must see as it has become.
		"default_transaction_isolation": "read committed",
	}
}

// searchPath is that of all our connections. Every name of ours is qualified, and no other is to be found; pg_temp,
// which is searched first where it is not named, comes last.
const searchPath = "pg_catalog, pg_temp"

// connector makes connections, for the pool and for listening.
type connector struct {
	config *pgxpool.Config
	ours   map[string]string // the parameters that we ask for; what the URL says about one of them stands
	log    *slog.Logger
	plain  atomic.Bool // the server refused our parameters
}

func newConnector(url string, log *slog.Logger) (*connector, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err // it names the mistake, without the password
	}
	c := &connector{config: config, ours: map[string]string{}, log: log}
	conn := config.ConnConfig
	for name, value := range parameters() {
		// A path in the URL is meant for the application whose URL it is.
		if _, set := conn.RuntimeParams[name]; !set || name == "search_path" {
			c.ours[name] = value
		}
	}
	explicit := strings.Contains(url, "target_session_attrs") || os.Getenv("PGTARGETSESSIONATTRS") != ""
	if conn.ValidateConnect == nil && !explicit {
		conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if !strings.Contains(url, "connect_timeout") && os.Getenv("PGCONNECT_TIMEOUT") == "" {
		conn.ConnectTimeout = connectTimeout
	}
	config.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error { c.dress(conn); return nil }
	conn.OnNotice = noteLocks
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error { inUTC(conn); return nil }
	return c, nil
}

// pool makes a pool of at most size connections. It does not connect.
func (c *connector) pool(ctx context.Context, size int) (*pgxpool.Pool, error) {
	config := c.config.Copy()
	config.MaxConns = int32(min(max(size, 1), 1000))
	config.MinConns, config.MinIdleConns = 0, 0
	return pgxpool.NewWithConfig(ctx, config)
}

// single makes a connection outside the pool.
func (c *connector) single(ctx context.Context) (*pgx.Conn, error) {
	open := func() (*pgx.Conn, error) {
		config := c.config.ConnConfig.Copy()
		c.dress(config)
		return pgx.ConnectConfig(ctx, config)
	}
	conn, err := open()
	if err != nil && c.goPlain(err) {
		conn, err = open()
	}
	return conn, err
}

// dress adds our parameters to a connection about to be made.
func (c *connector) dress(conn *pgx.ConnConfig) {
	if c.plain.Load() {
		return
	}
	maps.Copy(conn.RuntimeParams, c.ours)
}

// goPlain reports whether err is the server's refusal of our parameters; from then on connections are made without.
func (c *connector) goPlain(err error) bool {
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); !connecting {
		return false
	}
	switch code(err) {
	case codeProtocol, "42704", "22023", codePrivilege: // unknown parameter, its value, or no right to set it
	default:
		return false
	}
	if !c.plain.Swap(true) {
		c.log.Warn("the server refuses our settings, going on without: give the role a statement_timeout of 10s and a "+
			"search_path of pg_catalog, pg_temp (ALTER ROLE … SET …)", "err", err)
	}
	return true
}

// inUTC has times read in UTC, whatever the machine's zone is.
func inUTC(conn *pgx.Conn) {
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
}
