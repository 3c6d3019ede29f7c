// Records what a process does to the files of one directory, for scripts/power-cuts: loaded with LD_PRELOAD.
//
// POLYTRIE_RECORD_DIR   the directory; files elsewhere are left alone
// POLYTRIE_RECORD_LOG   the record, which is appended to
// POLYTRIE_RECORD_BOOT  a file that is read in place of the kernel's boot_id: MDBX trusts what it did not sync while that is the
//                       same, and it is not after a loss of power
//
// A line for each call, in the order of the calls, paths relative to the directory; the bytes of a write follow their line:
//   W path offset length is_synced      bytes were written; is_synced, through a descriptor with O_DSYNC or O_SYNC
//   S path                              a file was synced, or the names in a directory
//   T path length                       a file was cut, or made longer with zeros
//   C path                              a file was made
//   D path                              a directory was made
//   R path path                         a file was renamed
//   U path                              a file or an empty directory was removed
// A call that failed stands there as well if it wrote something. Maps of memory are not seen; MDBX writes through them to its
// table of readers only.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static int record = -1;
static char root[PATH_MAX];
static size_t root_length;

__attribute__((constructor)) static void begin(void) {
    const char *directory = getenv("POLYTRIE_RECORD_DIR"), *log = getenv("POLYTRIE_RECORD_LOG");
    if (!directory || !log || !realpath(directory, root)) return;
    root_length = strlen(root);
    record = REAL(open)(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

// The part of an absolute path below the directory, or NULL.
static const char *below(const char *path) {
    if (record < 0 || strncmp(path, root, root_length) || path[root_length] != '/') return NULL;
    return path + root_length + 1;
}

// The path of a name that a call was given, whether or not there is such a file.
static const char *named(int at, const char *name, char *path) {
    char link[64], parent[PATH_MAX], *slash;
    if (record < 0) return NULL;
    if (name[0] == '/') snprintf(parent, sizeof parent, "%s", name);
    else {
        char base[PATH_MAX];
        if (at == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) return NULL;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
            ssize_t length = readlink(link, base, sizeof base - 1);
            if (length < 0) return NULL;
            base[length] = 0;
        }
        if (snprintf(parent, sizeof parent, "%s/%s", base, name) >= (int)sizeof parent) return NULL;
    }
    size_t length = strlen(parent);
    while (length > 1 && parent[length - 1] == '/') parent[--length] = 0;
    slash = strrchr(parent, '/');
    if (!slash) return NULL;
    *slash = 0;
    char resolved[PATH_MAX];
    if (!realpath(*parent ? parent : "/", resolved)) return NULL;
    if (snprintf(path, PATH_MAX, "%s/%s", resolved, slash + 1) >= PATH_MAX) return NULL;
    return below(path);
}

// The path of an open file or directory; "." for the directory itself.
static const char *opened(int fd, char *path) {
    char link[64];
    if (record < 0) return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return NULL;
    path[length] = 0;
    if (!strcmp(path, root)) return ".";
    return below(path);
}

static void put(const void *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = REAL(write)(record, bytes, length);
        if (written < 0) abort(); // a record with a gap would accuse the program
        bytes = (const char *)bytes + written;
        length -= written;
    }
}

static void line(const char *format, ...) {
    char text[2 * PATH_MAX + 64];
    va_list words;
    va_start(words, format);
    int length = vsnprintf(text, sizeof text, format, words);
    va_end(words);
    put(text, length);
}

static int is_synced(int fd) { return (fcntl(fd, F_GETFL) & O_DSYNC) != 0; }

// What a write that returned `written` left in the file.
static void wrote(const char *path, int fd, const struct iovec *parts, int count, off_t offset, ssize_t written) {
    if (written <= 0) return;
    line("W %s %lld %zd %d\n", path, (long long)offset, written, is_synced(fd));
    for (int i = 0; i < count && written > 0; i++) {
        size_t length = parts[i].iov_len < (size_t)written ? parts[i].iov_len : (size_t)written;
        put(parts[i].iov_base, length);
        written -= length;
    }
}

// Offset at which a plain write is going to be.
static off_t place(int fd) {
    if (fcntl(fd, F_GETFL) & O_APPEND) {
        struct stat found;
        return fstat(fd, &found) ? 0 : found.st_size;
    }
    return lseek(fd, 0, SEEK_CUR);
}

#define WRITE(call, parts, count, at)                                                                                          \
    char path[PATH_MAX];                                                                                                       \
    const char *name = fd == record ? NULL : opened(fd, path);                                                                 \
    if (!name) return call;                                                                                                    \
    pthread_mutex_lock(&order);                                                                                                \
    off_t where = at;                                                                                                          \
    ssize_t written = call;                                                                                                    \
    int error = errno;                                                                                                         \
    wrote(name, fd, parts, count, where, written);                                                                             \
    pthread_mutex_unlock(&order);                                                                                              \
    errno = error;                                                                                                             \
    return written;

#define ONE(data, size) (&(struct iovec){(void *)(data), size})

ssize_t write(int fd, const void *data, size_t size) { WRITE(REAL(write)(fd, data, size), ONE(data, size), 1, place(fd)) }
ssize_t writev(int fd, const struct iovec *parts, int count) { WRITE(REAL(writev)(fd, parts, count), parts, count, place(fd)) }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { WRITE(REAL(pwrite)(fd, data, size, at), ONE(data, size), 1, at) }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { WRITE(REAL(pwrite64)(fd, data, size, at), ONE(data, size), 1, at) }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { WRITE(REAL(pwritev)(fd, parts, count, at), parts, count, at) }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) { WRITE(REAL(pwritev64)(fd, parts, count, at), parts, count, at) }

#define CHANGE(real, name, ...)                                                                                                \
    const char *changed = name;                                                                                                \
    if (!changed) return real;                                                                                                 \
    pthread_mutex_lock(&order);                                                                                                \
    int result = real, error = errno;                                                                                          \
    if (result == 0) line(__VA_ARGS__);                                                                                        \
    pthread_mutex_unlock(&order);                                                                                              \
    errno = error;                                                                                                             \
    return result;

int fsync(int fd) { char path[PATH_MAX]; CHANGE(REAL(fsync)(fd), opened(fd, path), "S %s\n", changed) }
int fdatasync(int fd) { char path[PATH_MAX]; CHANGE(REAL(fdatasync)(fd), opened(fd, path), "S %s\n", changed) }
int ftruncate(int fd, off_t size) { char path[PATH_MAX]; CHANGE(REAL(ftruncate)(fd, size), opened(fd, path), "T %s %lld\n", changed, (long long)size) }
int ftruncate64(int fd, off64_t size) { char path[PATH_MAX]; CHANGE(REAL(ftruncate64)(fd, size), opened(fd, path), "T %s %lld\n", changed, (long long)size) }
int mkdir(const char *name, mode_t mode) { char path[PATH_MAX]; CHANGE(REAL(mkdir)(name, mode), named(AT_FDCWD, name, path), "D %s\n", changed) }
int unlink(const char *name) { char path[PATH_MAX]; CHANGE(REAL(unlink)(name), named(AT_FDCWD, name, path), "U %s\n", changed) }
int rmdir(const char *name) { char path[PATH_MAX]; CHANGE(REAL(rmdir)(name), named(AT_FDCWD, name, path), "U %s\n", changed) }
int unlinkat(int at, const char *name, int flags) { char path[PATH_MAX]; CHANGE(REAL(unlinkat)(at, name, flags), named(at, name, path), "U %s\n", changed) }
int rename(const char *from, const char *to) {
    char source[PATH_MAX], path[PATH_MAX];
    const char *old = named(AT_FDCWD, from, source);
    if (!old) return REAL(rename)(from, to);
    CHANGE(REAL(rename)(from, to), named(AT_FDCWD, to, path), "R %s %s\n", old, changed)
}

// What the kernel copies or makes room for would not be seen; where that is refused, the caller reads and writes.
#define REFUSE(fd, call, reason)                                                                                               \
    char path[PATH_MAX];                                                                                                       \
    if (!opened(fd, path)) return call;                                                                                        \
    errno = reason;                                                                                                            \
    return -1;

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *there, size_t size, unsigned flags) { REFUSE(to, REAL(copy_file_range)(from, at, to, there, size, flags), ENOSYS) }
ssize_t sendfile(int to, int from, off_t *at, size_t size) { REFUSE(to, REAL(sendfile)(to, from, at, size), ENOSYS) }
ssize_t sendfile64(int to, int from, off64_t *at, size_t size) { REFUSE(to, REAL(sendfile64)(to, from, at, size), ENOSYS) }
int fallocate(int fd, int mode, off_t at, off_t size) { REFUSE(fd, REAL(fallocate)(fd, mode, at, size), EOPNOTSUPP) }

static int open_recorded(int at, const char *name, int flags, mode_t mode) {
    const char *boot = getenv("POLYTRIE_RECORD_BOOT");
    if (boot && !strcmp(name, "/proc/sys/kernel/random/boot_id")) name = boot;
    char path[PATH_MAX];
    const char *made = flags & (O_CREAT | O_TRUNC) ? named(at, name, path) : NULL;
    if (!made) return REAL(openat)(at, name, flags, mode);
    pthread_mutex_lock(&order);
    int is_there = !access(path, F_OK);
    int fd = REAL(openat)(at, name, flags, mode), error = errno;
    if (fd >= 0 && !is_there) line("C %s\n", made);
    if (fd >= 0 && is_there && flags & O_TRUNC) line("T %s 0\n", made);
    pthread_mutex_unlock(&order);
    errno = error;
    return fd;
}

#define MODE(flags)                                                                                                            \
    mode_t mode = 0;                                                                                                           \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                                                       \
        va_list words;                                                                                                         \
        va_start(words, flags);                                                                                                \
        mode = va_arg(words, mode_t);                                                                                          \
        va_end(words);                                                                                                         \
    }

int open(const char *name, int flags, ...) { MODE(flags) return open_recorded(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags) return open_recorded(AT_FDCWD, name, flags | O_LARGEFILE, mode); }
int openat(int at, const char *name, int flags, ...) { MODE(flags) return open_recorded(at, name, flags, mode); }
int openat64(int at, const char *name, int flags, ...) { MODE(flags) return open_recorded(at, name, flags | O_LARGEFILE, mode); }
