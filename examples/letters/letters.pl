#!/usr/bin/perl
# A long task: letters go out one after the other. A datagram to the notify socket, which systemd's services know, is a
# sign of life; the checkpoint in it comes back with the next attempt, which begins after the last letter that was noted.
use strict;
use warnings;
use IO::Socket::UNIX;
use JSON::PP;
use Time::HiRes 'sleep';

my $stopping;
$SIG{TERM} = sub { $stopping = 1 };    # cancelled, out of time, or the agent goes down

my $envelope = decode_json(do { local $/; <STDIN> });
my ($total, $task) = ($envelope->{data}{letters}, $envelope->{task});
my $start = $task->{checkpoint} // 0;

my $path = $ENV{NOTIFY_SOCKET} =~ s/^@/\0/r;    # an abstract address is written with an @
my $notify = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Peer => $path) or die "$path: $!";
open my $outbox, '>>', $ENV{OUTBOX} or die "$ENV{OUTBOX}: $!";
$outbox->autoflush;

for my $n ($start + 1 .. $total) {
    die 'stopped after ' . ($n - 1) . " letters\n" if $stopping;
    sleep 0.05;                                 # so long takes the printer
    print $outbox "letter $n, attempt $task->{attempt}\n";
    my $done = encode_json({ done => $n, total => $total });
    $notify->send("WATCHDOG=1\nX_LEASEHOLD_PROGRESS=$done\nX_LEASEHOLD_CHECKPOINT=$n") or die "notify: $!";
}

open my $result, '>', $ENV{LEASEHOLD_RESULT_FILE} or die "result: $!";
print $result encode_json({ letters => $total, after => $start });
