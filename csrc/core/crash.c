// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See crash.h. A signal handler may call very little; this one calls system calls, functions of
// libc that allocate nothing, and backtrace and dladdr, which allocate nothing after their first
// call. The loader does not know the names of static functions, so they are looked up in the
// library's file.
#include "crash.h"

#if defined(__linux__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PV_HAS_BACKTRACE
#endif

#ifndef PV_HAS_BACKTRACE

void pv_crash_watch(int fd, const char* head) {
    (void)fd;
    (void)head;
}

void pv_crash_answer(int number, const char* head) {
    (void)number;
    (void)head;
}

void pv_crash_unwatch(void) {
}

#else

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#define PV_FRAMES 64
#define PV_FRAMES_SHOWN 16
#define PV_SIGNALS 5
#define PV_STACK_BYTES 65536

static const int SIGNALS[PV_SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static const char* const LAST[] = {"pv_worker_", "_cffi_f_"}; // their callers are Python

static struct sigaction before[PV_SIGNALS];
static int watching;
static int crash_fd;
static const char* crash_head;
static const char* answer_head;
static struct sigaction before_answer;
static char stack_bytes[PV_STACK_BYTES]; // the handler cannot run on a stack that has overflowed

// ---- names ----

typedef struct elf_file {
    const uint8_t* bytes;
    uint64_t size;
} elf_file;

// Returns the bytes [at, at + count * size) of a file, NULL where it does not have them.
static const void* part_of(const elf_file* file, uint64_t at, uint64_t count, uint64_t size) {
    if (at > file->size || (size && count > (file->size - at) / size))
        return NULL;
    return file->bytes + at;
}

// Copies the name of the function at `offset` from a table of symbols. Returns 1 if there is one.
static int name_in(const elf_file* file,
                   const ElfW(Shdr) * sections,
                   uint32_t section_count,
                   const ElfW(Shdr) * table,
                   uint64_t offset,
                   char* name,
                   size_t room,
                   uint64_t* into) {
    uint64_t count = table->sh_size / sizeof(ElfW(Sym));
    const ElfW(Sym)* symbols = part_of(file, table->sh_offset, count, sizeof(ElfW(Sym)));
    if (!symbols || table->sh_link >= section_count)
        return 0;
    const ElfW(Shdr)* texts = &sections[table->sh_link];
    const char* text = part_of(file, texts->sh_offset, texts->sh_size, 1);
    for (uint64_t i = 0; text && i < count; i++) {
        const ElfW(Sym)* symbol = &symbols[i];
        uint64_t begin = symbol->st_value;
        if ((symbol->st_info & 15) != STT_FUNC || offset < begin ||
            offset - begin >= symbol->st_size)
            continue;
        if (symbol->st_name >= texts->sh_size)
            return 0;
        size_t length = strnlen(text + symbol->st_name, texts->sh_size - symbol->st_name);
        length = length < room ? length : room - 1;
        memcpy(name, text + symbol->st_name, length);
        name[length] = 0;
        *into = offset - begin;
        return 1;
    }
    return 0;
}

static int name_in_file(
    const elf_file* file, uint64_t offset, char* name, size_t room, uint64_t* into) {
    const ElfW(Ehdr)* head = part_of(file, 0, 1, sizeof(ElfW(Ehdr)));
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_type != ET_DYN)
        return 0;
    const ElfW(Shdr)* sections = part_of(file, head->e_shoff, head->e_shnum, sizeof(ElfW(Shdr)));
    for (uint32_t i = 0; sections && i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB && sections[i].sh_type != SHT_DYNSYM)
            continue;
        if (name_in(file, sections, head->e_shnum, &sections[i], offset, name, room, into))
            return 1;
    }
    return 0;
}

// Finds the function at an address of a library. Returns 0 if there is none, as in a library that
// was stripped.
static int name_of(const char* library, uint64_t offset, char* name, size_t room, uint64_t* into) {
    int fd = open(library, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    struct stat status;
    elf_file file = {MAP_FAILED, 0};
    if (!fstat(fd, &status) && S_ISREG(status.st_mode)) {
        file.size = (uint64_t)status.st_size;
        file.bytes = mmap(NULL, file.size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    close(fd);
    if (file.bytes == MAP_FAILED)
        return 0;
    int found = name_in_file(&file, offset, name, room, into);
    munmap((void*)(uintptr_t)file.bytes, file.size);
    return found;
}

// ---- the handler ----

static void say(const char* text, size_t length) {
    while (length) {
        ssize_t written = write(crash_fd, text, length);
        if (written <= 0)
            return;
        text += written;
        length -= (size_t)written;
    }
}

// Writes one line. called: the address is a return address; the byte before it belongs to the
// call. Returns 1 for the last frame that is of interest.
static int say_frame(void* address, int called) {
    Dl_info found;
    if (!dladdr(address, &found) || !found.dli_fname)
        return 0;
    uint64_t offset =
        (uint64_t)((uintptr_t)address - (uintptr_t)found.dli_fbase) - (uint64_t)called;
    char name[192] = "?", line[512];
    uint64_t into = offset;
    if (!name_of(found.dli_fname, offset, name, sizeof name, &into) && found.dli_sname) {
        snprintf(name, sizeof name, "%s", found.dli_sname);
        into = (uint64_t)((uintptr_t)address - (uintptr_t)found.dli_saddr);
    }
    int length = snprintf(line, sizeof line, "  %s+0x%llx in %s\n", name, (unsigned long long)into,
                          found.dli_fname);
    if (length > 0)
        say(line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
    return !strncmp(name, LAST[0], strlen(LAST[0])) || !strncmp(name, LAST[1], strlen(LAST[1]));
}

// Returns the address at which the signal arrived.
static void* address_of(const void* context) {
    const ucontext_t* at = context;
#if defined(__x86_64__)
    return (void*)(uintptr_t)at->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (void*)(uintptr_t)at->uc_mcontext.pc;
#else
    (void)at;
    return NULL;
#endif
}

static void say_stack(const char* head, const void* context) {
    say(head, strlen(head));
    void* frames[PV_FRAMES];
    int count = backtrace(frames, PV_FRAMES), first = 0;
    void* address = address_of(context);
    while (first < count && frames[first] != address)
        first++; // this handler and the kernel's frame
    if (first == count)
        first = count > 2 ? 2 : 0;
    for (int i = first; i < count && i < first + PV_FRAMES_SHOWN; i++)
        if (say_frame(frames[i], i > first))
            break;
}

static void crashed(int number, siginfo_t* info, void* context) {
    (void)info;
    for (int i = 0; i < PV_SIGNALS; i++)
        sigaction(SIGNALS[i], &before[i], NULL); // also for a fault in what follows
    say_stack(crash_head, context);
    raise(number); // immediately, because of SA_NODEFER; a faulting instruction would raise its
                   // signal again by itself, abort() would not
}

void pv_crash_watch(int fd, const char* head) {
    crash_fd = fd;
    crash_head = head;
    if (watching)
        return;
    void* frame;
    backtrace(&frame, 1); // loads its library now: a handler must not allocate
    stack_t stack;
    if (!sigaltstack(NULL, &stack) && stack.ss_flags & SS_DISABLE) {
        stack = (stack_t){.ss_sp = stack_bytes, .ss_size = sizeof stack_bytes};
        sigaltstack(&stack, NULL);
    }
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = crashed;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int i = 0; i < PV_SIGNALS; i++)
        sigaction(SIGNALS[i], &action, &before[i]);
    watching = 1;
}

static void answer(int number, siginfo_t* info, void* context) {
    int saved = errno;
    say_stack(answer_head, context);
    if (before_answer.sa_flags & SA_SIGINFO)
        before_answer.sa_sigaction(number, info, context);
    else if (before_answer.sa_handler != SIG_DFL && before_answer.sa_handler != SIG_IGN)
        before_answer.sa_handler(number);
    errno = saved;
}

void pv_crash_answer(int number, const char* head) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    answer_head = head;
    sigaction(number, &action, &before_answer);
}

void pv_crash_unwatch(void) {
    for (int i = 0; watching && i < PV_SIGNALS; i++) {
        struct sigaction now;
        if (!sigaction(SIGNALS[i], NULL, &now) && now.sa_flags & SA_SIGINFO &&
            now.sa_sigaction == crashed)
            sigaction(SIGNALS[i], &before[i], NULL);
    }
    watching = 0;
}

#endif
