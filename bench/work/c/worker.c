/*
 * A worker in C. It reads each envelope, a line of JSON, to its end, does nothing, and says that it has succeeded.
 * It gives up, with status 1, on a line that is no envelope.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the scan of a line stands, and what it has found. The line ends with a line feed, which no token contains. */
struct scan {
	const char *at;
	long long id, fence; /* of the envelope's task; -1: not found yet */
};

/* What an object is: its members mean something in the envelope and in its task only. */
enum place { ENVELOPE, TASK, ELSEWHERE };

static void fail(const char *why)
{
	fprintf(stderr, "worker: %s\n", why);
	exit(1);
}

static void space(struct scan *s)
{
	while (*s->at == ' ' || *s->at == '\t' || *s->at == '\r')
		s->at++;
}

static void expect(struct scan *s, char c)
{
	space(s);
	if (*s->at++ != c)
		fail("the line is no JSON");
}

static int next_is(struct scan *s, char c)
{
	space(s);
	if (*s->at != c)
		return 0;
	s->at++;
	return 1;
}

/* Passes over a string, and returns its content, with escapes as they stand. */
static const char *string(struct scan *s, size_t *len)
{
	expect(s, '"');
	const char *from = s->at;
	for (; *s->at != '"'; s->at++) {
		if (*s->at == '\\')
			s->at++;
		if ((unsigned char)*s->at < ' ')
			fail("a string does not end");
	}
	*len = (size_t)(s->at++ - from);
	return from;
}

static long long integer(struct scan *s)
{
	char *end;
	errno = 0;
	long long n = strtoll(s->at, &end, 10);
	if (end == s->at || errno != 0)
		fail("id or fence is no integer");
	s->at = end;
	return n;
}

static int is(const char *name, size_t len, const char *want)
{
	return len == strlen(want) && memcmp(name, want, len) == 0;
}

static void value(struct scan *s, enum place in);

static void member(struct scan *s, enum place in)
{
	size_t len;
	const char *name = string(s, &len);
	expect(s, ':');
	space(s);
	if (in == ENVELOPE && is(name, len, "task"))
		value(s, TASK);
	else if (in == TASK && is(name, len, "id"))
		s->id = integer(s);
	else if (in == TASK && is(name, len, "fence"))
		s->fence = integer(s);
	else
		value(s, ELSEWHERE);
}

/* Passes over a value. in is what it is, if it is an object. */
static void value(struct scan *s, enum place in)
{
	size_t len;
	space(s);
	switch (*s->at) {
	case '"':
		string(s, &len);
		return;
	case '{':
		s->at++;
		if (next_is(s, '}'))
			return;
		do
			member(s, in);
		while (next_is(s, ','));
		expect(s, '}');
		return;
	case '[':
		s->at++;
		if (next_is(s, ']'))
			return;
		do
			value(s, ELSEWHERE);
		while (next_is(s, ','));
		expect(s, ']');
		return;
	default: /* a number, true, false or null */
		len = strspn(s->at, "+-.0123456789Eaeflnrstu");
		if (len == 0)
			fail("the line is no JSON");
		s->at += len;
	}
}

static void reply(const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(3, text, len);
		if (n < 0 && errno != EINTR)
			fail("descriptor 3 cannot be written to");
		if (n > 0) {
			text += n;
			len -= (size_t)n;
		}
	}
}

static void run(const char *line)
{
	struct scan s = {line, -1, -1};
	value(&s, ENVELOPE);
	expect(&s, '\n');
	if (s.id < 0 || s.fence < 0)
		fail("the line is no envelope");
	char end[96];
	int n = snprintf(end, sizeof end, "{\"id\": %lld, \"fence\": %lld, \"result\": null}\n", s.id, s.fence);
	reply(end, (size_t)n);
}

int main(void)
{
	size_t room = 64 << 10, len = 0;
	char *buffer = malloc(room);
	if (buffer == NULL)
		fail("out of memory");
	reply("{\"ready\": true}\n", 16);
	for (;;) {
		ssize_t n = read(0, buffer + len, room - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			fail("standard input cannot be read");
		if (n == 0)
			return 0;
		const char *from = buffer;
		const char *feed = memchr(buffer + len, '\n', (size_t)n);
		len += (size_t)n;
		for (; feed != NULL; feed = memchr(from, '\n', len)) {
			run(from);
			len -= (size_t)(feed + 1 - from);
			from = feed + 1;
		}
		memmove(buffer, from, len);
		if (len == room) {
			room *= 2;
			buffer = realloc(buffer, room);
			if (buffer == NULL)
				fail("out of memory");
		}
	}
}
