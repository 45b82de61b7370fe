/* Cron entries as masks: what each form means, random masks there and back, and random bytes. C29, C32. */
#include "config/cron.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

TestSuite(cron, .timeout = 30);

#define DAYS INT64_C(0xfffffffe)

static bool parse(const char *text, struct cron_masks *masks) {
    struct arena arena = {0};
    struct cron_fault fault = {0};
    bool ok = cron_parse(text, masks, &arena, &fault);
    cr_expect(ok || (fault.message != NULL && fault.offset <= strlen(text)), "%s", text);
    arena_finish(&arena);
    return ok;
}

Test(cron, each_form_means_what_cron_means_by_it) {
    static const struct {
        const char *text;
        struct cron_masks masks;
    } rows[] = {
        {"* * * * *", {0xfffffffffffffff, DAYS, 0xffffff, 0x1ffe, 0x7f, false}},
        {"@hourly", {1, DAYS, 0xffffff, 0x1ffe, 0x7f, false}},
        {"@daily", {1, DAYS, 1, 0x1ffe, 0x7f, false}},
        {"@MIDNIGHT", {1, DAYS, 1, 0x1ffe, 0x7f, false}},
        {"@weekly", {1, DAYS, 1, 0x1ffe, 1, false}},
        {"@monthly", {1, 2, 1, 0x1ffe, 0x7f, false}},
        {"@yearly", {1, 2, 1, 2, 0x7f, false}},
        {"@annually", {1, 2, 1, 2, 0x7f, false}},
        {"  5\t1-3 1,15 Jan,DEC mon-wed ", {1 << 5, 0x8002, 0xe, 0x1002, 0xe, true}},
        {"59 23 31 12 7", {INT64_C(1) << 59, INT64_C(1) << 31, 1 << 23, 1 << 12, 1, true}},
        {"0 0 * * 5-7", {1, DAYS, 1, 0x1ffe, 0x61, false}},
        {"0 0 * * fri-sun", {1, DAYS, 1, 0x1ffe, 0x61, false}},
        {"0 0 * * 0-6/2", {1, DAYS, 1, 0x1ffe, 0x55, false}},
        {"*/20 10-20/5 */10 * *", {0x10000100001, 0x80200802, 0x108400, 0x1ffe, 0x7f, false}},
        {"0 0 */2 * 1", {1, 0xaaaaaaaa, 1, 0x1ffe, 2, false}}, /* it begins with a star */
        {"0 0 29 2 *", {1, 1 << 29, 1, 4, 0x7f, false}},
        {"0 0 31 2 1", {1, INT64_C(1) << 31, 1, 4, 2, true}}, /* Mondays come */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cron_masks got = {0}, want = rows[i].masks;
        cr_expect(parse(rows[i].text, &got), "%s", rows[i].text);
        cr_expect(got.minutes == want.minutes && got.days == want.days && got.hours == want.hours &&
                      got.months == want.months && got.weekdays == want.weekdays &&
                      got.day_or_weekday == want.day_or_weekday,
                  "%s: %" PRIx64 " %x %" PRIx64 " %x %x %d", rows[i].text, (uint64_t)got.minutes, (unsigned)got.hours,
                  (uint64_t)got.days, (unsigned)got.months, (unsigned)got.weekdays, got.day_or_weekday);
    }
}

Test(cron, the_smallest_gap_is_that_of_two_ticks_that_follow_each_other) {
    static const struct {
        const char *text;
        int minutes;
    } rows[] = {
        {"* * * * *", 1},      {"*/25 * * * *", 10}, {"*/25 3 * * *", 25}, {"7 * * * *", 60}, {"7 1,3 * * *", 120},
        {"7 0,23 * * *", 60}, {"7 3 * * *", 1440}, {"0 0 1 1 *", 1440},  {"0,59 0,23 * * *", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cron_masks masks = {0};
        cr_assert(parse(rows[i].text, &masks), "%s", rows[i].text);
        cr_expect_eq(cron_smallest_gap_minutes(&masks), rows[i].minutes, "%s", rows[i].text);
    }
}

/* A mask as a list of values and ranges, chosen at random. */
static void write_field(struct buf *out, int64_t mask, int low, int high) {
    bool first = true;
    for (int value = low; value <= high; value++) {
        if ((mask >> value & 1) == 0) {
            continue;
        }
        int last = value;
        while (rand() % 4 != 0 && last < high && (mask >> (last + 1) & 1) != 0) {
            last++;
        }
        buf_append_format(out, "%s%d", first ? "" : ",", value);
        if (last > value) {
            buf_append_format(out, "-%d", last);
        }
        first = false;
        value = last;
    }
    buf_append_char(out, ' ');
}

static int64_t random_mask(int low, int high) {
    int64_t mask = INT64_C(1) << (low + rand() % (high - low + 1));
    for (int value = low; value <= high; value++) {
        mask |= (int64_t)(rand() % 3 == 0) << value;
    }
    return mask;
}

Test(cron, random_masks_come_back) {
    srand(1);
    for (int i = 0; i < 5000; i++) {
        struct buf text;
        struct cron_masks got;
        int64_t minutes = random_mask(0, 59), hours = random_mask(0, 23), days = random_mask(1, 28);
        int64_t months = random_mask(1, 12), weekdays = random_mask(0, 6);
        buf_init(&text, 4096);
        write_field(&text, minutes, 0, 59);
        write_field(&text, hours, 0, 23);
        write_field(&text, days, 1, 31);
        write_field(&text, months, 1, 12);
        write_field(&text, weekdays, 0, 6);
        cr_assert(parse(text.data, &got), "%s", text.data);
        cr_assert(got.minutes == minutes && got.hours == hours && got.days == days && got.months == months &&
                      got.weekdays == weekdays && got.day_or_weekday,
                  "%s", text.data);
        buf_finish(&text);
    }
}

Test(cron, random_bytes_are_read_or_refused) {
    static const char bytes[] = "**  135/-, a";
    int read = 0;
    srand(2);
    for (int i = 0; i < 40000; i++) {
        char text[24];
        size_t length = (size_t)(rand() % 14);
        for (size_t k = 0; k < length; k++) {
            text[k] = bytes[(size_t)rand() % (sizeof bytes - 1)];
        }
        text[length] = '\0';
        struct cron_masks masks;
        if (parse(text, &masks)) {
            cr_assert(masks.minutes > 0 && masks.minutes >> 60 == 0 && masks.hours > 0 && masks.hours >> 24 == 0 &&
                          masks.days > 0 && masks.days >> 32 == 0 && (masks.days & 1) == 0 && masks.months > 0 &&
                          masks.months >> 13 == 0 && (masks.months & 1) == 0 && masks.weekdays > 0 && masks.weekdays < 128,
                      "%s", text);
            read++;
        }
    }
    cr_expect_gt(read, 0);
}
