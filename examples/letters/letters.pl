#!/usr/bin/perl
# A long task that sends letters. Each datagram to the notify socket, as systemd services send them, is a ping with a
# checkpoint. The next attempt receives the last checkpoint, and resumes after that letter.
use strict;
use warnings;
use IO::Socket::UNIX;
use JSON::PP;
use Time::HiRes 'sleep';

my $stopping;
$SIG{TERM} = sub { $stopping = 1 };    # cancelled, timed out, or the agent is stopping

my $envelope = decode_json(do { local $/; <STDIN> });
my ($total, $task) = ($envelope->{data}{letters}, $envelope->{task});
my $start = $task->{checkpoint} // 0;

my $path = $ENV{NOTIFY_SOCKET} =~ s/^@/\0/r;    # an abstract address is written with an @
my $notify = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Peer => $path) or die "$path: $!";
open my $outbox, '>>', $ENV{OUTBOX} or die "$ENV{OUTBOX}: $!";
$outbox->autoflush;

for my $n ($start + 1 .. $total) {
    die 'stopped after ' . ($n - 1) . " letters\n" if $stopping;
    sleep 0.05;                                 # the time that the printer takes
    print $outbox "letter $n, attempt $task->{attempt}\n";
    my $done = encode_json({ done => $n, total => $total });
    $notify->send("WATCHDOG=1\nX_LEASEHOLD_PROGRESS=$done\nX_LEASEHOLD_CHECKPOINT=$n") or die "notify: $!";
}

open my $result, '>', $ENV{LEASEHOLD_RESULT_FILE} or die "result: $!";
print $result encode_json({ letters => $total, after => $start });
