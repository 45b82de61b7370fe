/* exports.c - the names in a loaded library's dynamic symbol table, read where the loader mapped
 * it.
 *
 * The table has no length of its own: it follows from either hash table (System V gABI; GNU's has
 * no specification but binutils and glibc).
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/plugin.h"

static const char prefix[] = "pgstage_handler_";
enum { PREFIX_LENGTH = sizeof prefix - 1 };

struct table {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *sysv_hash, *gnu_hash;
};

/* Most machines' loaders leave absolute addresses here, some leave offsets. */
static const void *address(const struct link_map *map, ElfW(Addr) value) {
    return (const void *)(value < map->l_addr ? value + map->l_addr : value);
}

static struct table find_table(const struct link_map *map) {
    struct table table = {0};
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        const void *at = address(map, entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_SYMTAB:
            table.symbols = at;
            break;
        case DT_STRTAB:
            table.strings = at;
            break;
        case DT_HASH:
            table.sysv_hash = at;
            break;
        case DT_GNU_HASH:
            table.gnu_hash = at;
            break;
        default:
            break;
        }
    }
    return table;
}

/* The highest index in any bucket, and from there to the end of its chain, which an odd hash marks.
 */
static size_t count_by_gnu_hash(const uint32_t *hash) {
    uint32_t bucket_count = hash[0], first_hashed = hash[1], bloom_words = hash[2];
    const uint32_t *buckets = hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chains = buckets + bucket_count;
    uint32_t last = 0;
    for (uint32_t i = 0; i < bucket_count; i++) {
        last = buckets[i] > last ? buckets[i] : last;
    }
    if (last < first_hashed) {
        return first_hashed;
    }
    while ((chains[last - first_hashed] & 1) == 0) {
        last++;
    }
    return (size_t)last + 1;
}

static size_t count_symbols(const struct table *table) {
    if (table->symbols == NULL || table->strings == NULL) {
        return 0;
    }
    if (table->sysv_hash != NULL) {
        return table->sysv_hash[1];
    }
    return table->gnu_hash == NULL ? 0 : count_by_gnu_hash(table->gnu_hash);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void plugin_list_exports(void *library, struct buf *out) {
    struct link_map *map;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) {
        return;
    }
    struct table table = find_table(map);
    size_t count = count_symbols(&table), found = 0;
    const char **names = mem_alloc(count * sizeof *names);
    for (size_t i = 0; i < count; i++) {
        const char *name = table.strings + table.symbols[i].st_name;
        if (table.symbols[i].st_shndx != SHN_UNDEF && strncmp(name, prefix, PREFIX_LENGTH) == 0) {
            names[found++] = name + PREFIX_LENGTH;
        }
    }
    if (found > 0) {
        qsort(names, found, sizeof *names, compare_names);
    }
    for (size_t i = 0; i < found && !out->overflow; i++) {
        buf_append_format(out, "%s%s", i == 0 ? "" : ", ", names[i]);
    }
    free(names);
}
