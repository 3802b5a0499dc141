package postgres

import "strings"

// How long documents are, as far as that can be told without reading them: the server keeps what is large elsewhere, and
// what pg_column_size says of that it reads from the row itself. It is not what an agent gets, which is the document's text:
// that may be several times as long, and of what the server has compressed a hundred times. So what is compressed well
// is reckoned to be of use 32 times over while it is small, and is read where it is not; so is all beyond a MiB. What is
// short counts for 2 KiB without a closer look, so a row with nothing but a small payload pays for one look at its size.

// lengthOf is how long a jsonb column is.
func lengthOf(column string) string {
	return strings.ReplaceAll(`CASE
        WHEN pg_column_size(COLUMN) <= 256 THEN 2048
        WHEN pg_column_compression(COLUMN) IS NULL AND pg_column_size(COLUMN) <= 1048576 OR pg_column_size(COLUMN) > `+heaviest+`
            THEN pg_column_size(COLUMN)
        WHEN pg_column_size(COLUMN) <= 4096 THEN 32 * pg_column_size(COLUMN)
        ELSE octet_length(COLUMN::text) END`, "COLUMN", column)
}

// heaviest is store.MaxMaxPayload.
const heaviest = "67108864"

// nextFence is the fence of a hold that begins. It rises, and no row that somebody has made up keeps others from being
// claimed: the number is store.MaxFence.
const nextFence = "greatest(least(t.fence, 4611686018426339328), 0) + 1"

// rowBytes is how long the documents of a row t are together.
func rowBytes() string {
	return `(` + lengthOf("t.payload") + `)::float8 + CASE
                WHEN t.rollback_payload IS NULL AND t.result IS NULL AND t.checkpoint IS NULL THEN 0
                ELSE coalesce(` + lengthOf("t.rollback_payload") + `, 0)::float8 + coalesce(` + lengthOf("t.result") + `, 0)
                    + coalesce(` + lengthOf("t.checkpoint") + `, 0) END`
}

// heaviestSQL says of a row t why no agent takes it, if one of its documents is too long for that; no row: none is.
func heaviestSQL() string {
	return `
        SELECT format('its %s is %s bytes, and agents take 64 MiB at most: keep what is large elsewhere, and where it is in '
            'the payload', d.what, d.bytes) AS unfit
        FROM (VALUES ('payload', ` + lengthOf("t.payload") + `), ('rollback payload', ` + lengthOf("t.rollback_payload") + `),
            ('result', ` + lengthOf("t.result") + `), ('checkpoint', ` + lengthOf("t.checkpoint") + `)) AS d (what, bytes)
        WHERE d.bytes > ` + heaviest + ` LIMIT 1`
}

// documentsUnless is rowColumns without the documents of rows of which a condition is true.
func documentsUnless(condition string) string {
	var pairs []string
	for _, column := range []string{"payload", "result", "labels", "checkpoint", "rollback_payload"} {
		pairs = append(pairs, " t."+column+",", " CASE WHEN "+condition+" THEN NULL ELSE t."+column+" END,")
	}
	return strings.NewReplacer(pairs...).Replace(rowColumns)
}
