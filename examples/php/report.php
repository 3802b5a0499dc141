<?php
// A report.build task: it reads the envelope from standard input and writes the result to $LEASEHOLD_RESULT_FILE.
declare(strict_types=1);

require __DIR__ . '/db.php';

$name = json_decode(stream_get_contents(STDIN), true, flags: JSON_THROW_ON_ERROR)['data']['name'];

$greetings = (new Db())->transaction(function (Db $db) use ($name) {
    $count = (int) $db->run('SELECT count(*) FROM greeting WHERE greeted_by IS NOT NULL')->fetchColumn();
    return $db->run('UPDATE report SET greetings = ? WHERE name = ?', $count, $name)->rowCount() === 1 ? $count : null;
});

if ($greetings === null) {
    fwrite(STDERR, "no report of the name $name\n");
    exit(65); // rejected: a retry would not help
}
file_put_contents(getenv('LEASEHOLD_RESULT_FILE'), json_encode(['greetings' => $greetings]));
