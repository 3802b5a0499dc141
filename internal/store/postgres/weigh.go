package postgres

import "strings"

// A claim is told how long documents are without reading them (the schema's function weight) and takes none that no agent
// can hold (unfit). Both are called for large documents only: what is small is told from its size alone, since a claim of
// one row would pay for each expression in it with a hundredth of its time.

// rowBytes is how long the documents of a row t are together, or more: what is compressed counts 32 times, a rollback
// payload always, and results and checkpoints for the most that they may be.
const rowBytes = `CASE WHEN pg_column_compression(t.payload) IS NULL THEN 1::float8 ELSE 32 END * pg_column_size(t.payload)
                + CASE WHEN t.rollback_payload IS NULL AND t.result IS NULL AND t.checkpoint IS NULL THEN 0
                    ELSE 131072 + 32 * coalesce(pg_column_size(t.rollback_payload), 0)::float8 END`

// unfit says of a row t why no agent takes it; NULL: nothing keeps one from it. What is stored in 32 KiB is not too long,
// whatever it was compressed to and however much longer its text is: lz4 makes at most 255 times as little of it, and an
// escaped control character is six bytes of text.
const unfit = `CASE WHEN pg_column_size(t.payload) > 32768 OR pg_column_size(t.rollback_payload) > 32768
        OR pg_column_size(t.result) > 32768 OR pg_column_size(t.checkpoint) > 32768
        THEN {schema}.unfit(t.payload, t.rollback_payload, t.result, t.checkpoint) END`

// fitDocuments is rowColumns without the documents that are too long.
func fitDocuments() string {
	return documents(func(column string) string {
		return `CASE WHEN pg_column_size(t.` + column + `) > 32768 THEN {schema}.fit(t.` + column + `) ELSE t.` + column + ` END`
	}, "payload", "result", "checkpoint", "rollback_payload")
}

// withoutDocuments is rowColumns without any, labels included.
func withoutDocuments() string {
	return documents(func(string) string { return "NULL::jsonb" }, "payload", "result", "labels", "checkpoint", "rollback_payload")
}

func documents(as func(column string) string, columns ...string) string {
	var pairs []string
	for _, column := range columns {
		pairs = append(pairs, " t."+column+",", " "+as(column)+",")
	}
	return strings.NewReplacer(pairs...).Replace(rowColumns)
}

// nextFence is the fence of a hold that begins. It rises, and no made-up row keeps others from being
// claimed: the number is store.MaxFence.
const nextFence = "greatest(least(t.fence, 4611686018426339328), 0) + 1"
