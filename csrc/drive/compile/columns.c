// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See columns.h. A list is removed only if JSON allows each of its characters where it stands. So
// the rest is JSON if and only if the text was, and anything odd is left for a parser that can
// explain it.
//
// Numbers are rounded as in IEEE 754 and Python. If w and the power of ten are exact as doubles,
// w * 10^e is computed from them (Clinger 1990); else from the quotient of w and a power of five,
// both below 2^64, to 63 bits or more and with its remainder, which is enough to round it once; and
// by strtod if numbers are too long, too large or too small for that.
#include "drive/compile/columns.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIGITS 19 // a number with this many digits fits into 64 bits
#define MOST_FIVES 27  // and so does this power of five
#define EXACT_POWER 22 // 10^22 is exact as a double
#define EXACT_WHOLE (1ull << 53)
#define ITEM_DEPTH 3 // nesting depth of the keys of an object or a road

__extension__ typedef unsigned __int128 wide;

typedef struct reader {
    const char *at, *end;
    double* values;
    uint64_t value_count;
    double largest; // of the current list
} reader;

static const double powers[EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                               1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                               1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static const uint64_t fives[MOST_FIVES + 1] = {1u,
                                               5u,
                                               25u,
                                               125u,
                                               625u,
                                               3125u,
                                               15625u,
                                               78125u,
                                               390625u,
                                               1953125u,
                                               9765625u,
                                               48828125u,
                                               244140625u,
                                               1220703125u,
                                               6103515625ull,
                                               30517578125ull,
                                               152587890625ull,
                                               762939453125ull,
                                               3814697265625ull,
                                               19073486328125ull,
                                               95367431640625ull,
                                               476837158203125ull,
                                               2384185791015625ull,
                                               11920928955078125ull,
                                               59604644775390625ull,
                                               298023223876953125ull,
                                               1490116119384765625ull,
                                               7450580596923828125ull};

static double power_of_two(int e) {
    uint64_t bits = (uint64_t)(1023 + e) << 52;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

// Returns w / 10^k, rounded to the nearest double, ties to even, for 0 < w and 0 <= k <=
// MOST_FIVES.
static double quotient(uint64_t w, int k) {
    uint64_t divisor = fives[k];
    int left = __builtin_clzll(w), down = __builtin_clzll(divisor);
    divisor <<= down;
    wide numerator = (wide)(w << left) << 63;
    uint64_t whole = (uint64_t)(numerator / divisor), rest = (uint64_t)(numerator % divisor);
    int spare = 11 - __builtin_clzll(whole); // bits that a double has no room for
    uint64_t half = 1ull << (spare - 1), low = whole & (2 * half - 1);
    whole >>= spare;
    whole += low > half || (low == half && (rest || (whole & 1)));
    return (double)whole * power_of_two(spare - 63 + down - left - k);
}

// Sets `out` to w * 10^e. Returns 0 if that is not computed here.
static int decimal(uint64_t w, int e, double* out) {
    int exact = w <= EXACT_WHOLE && e >= -EXACT_POWER && e <= EXACT_POWER;
    if (exact)
        *out = e < 0 ? (double)w / powers[-e] : (double)w * powers[e];
    else if (w && e <= 0 && e >= -MOST_FIVES)
        *out = quotient(w, -e);
    else
        return 0;
    return 1;
}

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

static char peek(const reader* r) {
    return r->at < r->end ? *r->at : '\0';
}

static void skip_space(reader* r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

// Reads the character `wanted`, and white space around it. Returns 0 if another one comes next.
static int take(reader* r, char wanted) {
    skip_space(r);
    if (peek(r) != wanted)
        return 0;
    r->at++;
    skip_space(r);
    return 1;
}

// Appends digits to w, which has room for MOST_DIGITS. Returns how many there are.
static ptrdiff_t digits(reader* r, uint64_t* w) {
    const char *first = r->at, *at = first;
    uint64_t v = *w;
    for (; at < r->end && is_digit(*at); at++)
        v = v * 10 + (uint64_t)(*at - '0');
    *w = v;
    r->at = at;
    return at - first;
}

// Reads the exponent of a number, if it has one. Returns 0 if it is cut off, or beyond all doubles.
static int exponent(reader* r, int* out) {
    uint64_t power = 0;
    *out = 0;
    if (peek(r) != 'e' && peek(r) != 'E')
        return 1;
    r->at++;
    int down = peek(r) == '-';
    r->at += down || peek(r) == '+';
    ptrdiff_t count = digits(r, &power);
    if (count < 1 || count > 3)
        return 0;
    *out = down ? -(int)power : (int)power;
    return 1;
}

static int number(reader* r, double* out) {
    uint64_t w = 0;
    int negative = peek(r) == '-', power;
    r->at += negative;
    const char* first = r->at;
    ptrdiff_t before = digits(r, &w), behind = 0;
    if (!before || (*first == '0' && before > 1))
        return 0;
    if (peek(r) == '.') {
        r->at++;
        behind = digits(r, &w);
        if (!behind)
            return 0;
    }
    int whole = !behind && peek(r) != 'e' && peek(r) != 'E';
    if (!exponent(r, &power) || r->at == r->end)
        return 0; // no whole text ends with a number
    int done = before + behind <= MOST_DIGITS && decimal(w, power - (int)behind, out);
    if (!done)
        *out = strtod(first, NULL);
    if (!isfinite(*out))
        return 0;
    if (*out > r->largest)
        r->largest = *out;
    if (negative && !(whole && w == 0))
        *out = -*out; // -0 is a whole number, and 0
    return 1;
}

static int word(reader* r, const char* wanted) {
    size_t size = strlen(wanted);
    if ((size_t)(r->end - r->at) < size || memcmp(r->at, wanted, size) != 0)
        return 0;
    r->at += size;
    return 1;
}

static int flag(reader* r, double* out) {
    *out = word(r, "true") || word(r, "1");
    return *out != 0.0 || word(r, "false") || word(r, "0");
}

// Reads an object with the keys x, y and perhaps z, each once, in any order, into out (3,). Returns
// the number of keys, 0 for any other text.
static uint32_t point(reader* r, double* out) {
    uint32_t seen = 0, count = 0;
    if (!take(r, '{'))
        return 0;
    do {
        skip_space(r);
        if (r->end - r->at < 3 || r->at[0] != '"' || r->at[2] != '"' || r->at[1] < 'x' ||
            r->at[1] > 'z')
            return 0;
        int axis = r->at[1] - 'x';
        r->at += 3;
        if ((seen >> axis & 1) || !take(r, ':') || !number(r, &out[axis]))
            return 0;
        seen |= 1u << axis;
        count++;
    } while (take(r, ','));
    if (!take(r, '}'))
        return 0;
    return seen == (1u << count) - 1 ? count : 0; // x, x y, x y z
}

// Reads a list of one kind (PV_LIST_FLAGS, PV_LIST_NUMBERS, else points) after its bracket. Returns
// 0 for any other text.
static int list(reader* r, uint32_t kind, pv_json_list* found) {
    *found = (pv_json_list){.first = r->value_count};
    r->largest = 0.0;
    do {
        double* out = r->values + r->value_count;
        uint32_t axes = kind;
        skip_space(r);
        if (kind > PV_LIST_NUMBERS)
            axes = point(r, out);
        else if (kind == PV_LIST_FLAGS ? !flag(r, out) : !number(r, out))
            return 0;
        if (kind > PV_LIST_NUMBERS && (axes < 2 || (found->count && axes != found->axes)))
            return 0;
        found->axes = axes;
        found->count++;
        r->value_count += axes ? axes : 1;
    } while (take(r, ','));
    found->largest = r->largest;
    return take(r, ']');
}

// Returns the kind of list under a key: PV_LIST_FLAGS, PV_LIST_NUMBERS, 2 for points; -1 for keys
// whose values stay in the text.
static int kind_of(const char* key, size_t size) {
#define IS(name) (size == sizeof name - 1 && memcmp(key, name, sizeof name - 1) == 0)
    if (IS("position") || IS("velocity") || IS("geometry"))
        return 2;
    if (IS("heading"))
        return PV_LIST_NUMBERS;
    return IS("valid") ? PV_LIST_FLAGS : -1;
}

static int holds_items(const char* key, size_t size) {
    return IS("objects") || IS("roads");
}

// Skips a string whose first quote has been read. Returns 0 if it begins with the mark, or may do
// so when it is decoded.
static int pass_string(reader* r) {
    if (peek(r) == PV_LIST_MARK)
        return 0;
    while (r->at < r->end) {
        char c = *r->at++;
        if (c == '"')
            return 1;
        if (c != '\\' || r->at == r->end)
            continue;
        if (*r->at++ == 'u')
            return 0;
    }
    return 1;
}

// Writes the string that takes the place of list number n.
static char* put_mark(char* out, uint64_t n) {
    char text[24];
    int size = 0;
    do
        text[size++] = (char)('0' + n % 10);
    while (n /= 10);
    *out++ = '"';
    *out++ = PV_LIST_MARK;
    while (size)
        *out++ = text[--size];
    *out++ = '"';
    return out;
}

int64_t pv_drive_json_columns(const char* text,
                              uint64_t bytes,
                              char* out,
                              double* values,
                              pv_json_list* lists,
                              uint64_t* count) {
    reader r = {.at = text, .end = text + bytes, .values = values};
    const char* copied = text;
    char* const begin = out;
    int64_t depth = 0;
    int items = 0; // whether the key at depth 1 holds objects or roads
    *count = 0;
    if (strcmp(localeconv()->decimal_point, ".") != 0)
        return -1; // strtod would not read the numbers of JSON
    while (r.at < r.end) {
        char c = *r.at++;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (c != '"')
            continue;
        const char* key = r.at;
        if (!pass_string(&r))
            return -1;
        size_t size = (size_t)(r.at - key) - 1;
        if (!take(&r, ':'))
            continue;
        if (depth == 1)
            items = holds_items(key, size);
        int kind = items && depth == ITEM_DEPTH ? kind_of(key, size) : -1;
        if (kind < 0 || peek(&r) != '[')
            continue;
        reader ahead = r;
        ahead.at++;
        if (!list(&ahead, (uint32_t)kind, &lists[*count]) || ahead.at - r.at < PV_LIST_BYTES)
            continue;
        memcpy(out, copied, (size_t)(r.at - copied));
        out = put_mark(out + (r.at - copied), (*count)++);
        r = ahead;
        copied = r.at;
    }
    memcpy(out, copied, (size_t)(r.end - copied));
    return out + (r.end - copied) - begin;
}
