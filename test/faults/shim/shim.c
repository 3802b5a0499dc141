/*
 * Preloaded into PostgreSQL (LD_PRELOAD): its clock on the wall is wrong by as much, and its disk is full, as a file says
 * that LEASEHOLD_FAULT_CONTROL names: two integers of eight bytes, nanoseconds and 0 or 1. It is looked at at each call,
 * so a change reaches all of the server's processes at once.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
	int64_t offset;
	int64_t full;
};

static const volatile struct control *control;

__attribute__((constructor)) static void attach(void)
{
	const char *path = getenv("LEASEHOLD_FAULT_CONTROL");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *page = mmap(NULL, sizeof *control, PROT_READ, MAP_SHARED, fd, 0);
	if (page != MAP_FAILED)
		control = page;
	close(fd);
}

static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static void shift(struct timespec *ts)
{
	if (!control)
		return;
	int64_t offset = control->offset;
	int64_t ns = ts->tv_nsec + offset % 1000000000;
	ts->tv_sec += offset / 1000000000;
	if (ns < 0) {
		ns += 1000000000;
		ts->tv_sec--;
	} else if (ns >= 1000000000) {
		ns -= 1000000000;
		ts->tv_sec++;
	}
	ts->tv_nsec = ns;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	static int (*real)(clockid_t, struct timespec *);
	if (!real)
		real = next("clock_gettime");
	int status = real(id, ts);
	if (status == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		shift(ts);
	return status;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *at)
{
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return (time_t)-1;
	if (at)
		*at = ts.tv_sec;
	return ts.tv_sec;
}

/* A full disk takes what overwrites a file, and nothing that makes it longer. */
static int refused(int fd, off_t end)
{
	struct stat s;
	if (!control || !control->full || fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || end <= s.st_size)
		return 0;
	errno = ENOSPC;
	return 1;
}

#define REAL(result, name, ...) static result (*real)(__VA_ARGS__); if (!real) real = next(#name)

ssize_t write(int fd, const void *data, size_t n)
{
	REAL(ssize_t, write, int, const void *, size_t);
	off_t at = control && control->full ? lseek(fd, 0, SEEK_CUR) : -1;
	if (at >= 0 && refused(fd, at + (off_t)n))
		return -1;
	return real(fd, data, n);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
	REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
	return refused(fd, at + (off_t)n) ? -1 : real(fd, data, n, at);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at)
{
	REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
	return refused(fd, at + (off_t)n) ? -1 : real(fd, data, n, at);
}

static off_t length(const struct iovec *parts, int n)
{
	off_t sum = 0;
	for (int i = 0; i < n; i++)
		sum += (off_t)parts[i].iov_len;
	return sum;
}

ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at)
{
	REAL(ssize_t, pwritev, int, const struct iovec *, int, off_t);
	return refused(fd, at + length(parts, n)) ? -1 : real(fd, parts, n, at);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int n, off64_t at)
{
	REAL(ssize_t, pwritev64, int, const struct iovec *, int, off64_t);
	return refused(fd, at + length(parts, n)) ? -1 : real(fd, parts, n, at);
}

int posix_fallocate(int fd, off_t at, off_t n)
{
	REAL(int, posix_fallocate, int, off_t, off_t);
	return refused(fd, at + n) ? ENOSPC : real(fd, at, n);
}

int posix_fallocate64(int fd, off64_t at, off64_t n)
{
	REAL(int, posix_fallocate64, int, off64_t, off64_t);
	return refused(fd, at + n) ? ENOSPC : real(fd, at, n);
}
