<?php
// The application's database, PostgreSQL or SQLite, which is also the agent's store.
declare(strict_types=1);

final class Db
{
    private PDO $pdo;
    private bool $sqlite;

    public function __construct()
    {
        $url = getenv('DATABASE_URL') ?: 'sqlite:leasehold.db';
        $this->sqlite = str_starts_with($url, 'sqlite:');
        $this->pdo = $this->sqlite ? new PDO($url) : self::postgres(parse_url($url));
        if ($this->sqlite) {
            $this->pdo->exec('PRAGMA busy_timeout = 5000'); // PHP's default is none
        }
    }

    private static function postgres(array $url): PDO
    {
        parse_str($url['query'] ?? '', $query);
        $dsn = 'pgsql:host=' . $url['host'] . ';port=' . ($url['port'] ?? 5432) . ';dbname=' . ltrim($url['path'], '/');
        $dsn .= isset($query['sslmode']) ? ';sslmode=' . $query['sslmode'] : '';
        return new PDO($dsn, urldecode($url['user'] ?? ''), urldecode($url['pass'] ?? ''));
    }

    /** Runs $work in one transaction, all or nothing. */
    public function transaction(callable $work): mixed
    {
        $this->pdo->exec($this->sqlite ? 'BEGIN IMMEDIATE' : 'BEGIN');
        try {
            $result = $work($this);
            $this->pdo->exec('COMMIT');
            return $result;
        } catch (Throwable $error) {
            $this->pdo->exec('ROLLBACK');
            throw $error;
        }
    }

    public function run(string $sql, mixed ...$values): PDOStatement
    {
        $statement = $this->pdo->prepare($sql);
        $statement->execute($values);
        return $statement;
    }

    /** Adds a task to the open transaction, and returns its id. */
    public function enqueue(string $type, array $payload): int
    {
        $table = $this->sqlite ? 'task' : 'leasehold.task';
        $sql = "INSERT INTO $table (type, payload) VALUES (?, ?) RETURNING id";
        return (int) $this->run($sql, $type, json_encode($payload, JSON_THROW_ON_ERROR))->fetchColumn();
    }

    public function createTables(): void
    {
        $this->pdo->exec(file_get_contents(__DIR__ . '/../schema.sql'));
    }
}
