/* A C program's use of every function of tandem/tandem.h. Prints what is wrong. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/tandem.h>

static int failures = 0;
static int line_of(int ok, const char* what, int line) {
  if (!ok) {
    printf("line %d: %s\n", line, what);
    ++failures;
  }
  return ok;
}
#define CHECK(condition) line_of((condition) != 0, #condition, __LINE__)

#define KEY "answer", (size_t)6

static int is_value(const tandem_value* value, const char* text) {
  return value->size == strlen(text) && memcmp(value->bytes, text, value->size) == 0;
}

struct seen {
  size_t count, in_order;
  tandem_code codes[600];
  size_t bytes;
  uint64_t number;
};

static void see(void* context, size_t index, const tandem_reply* reply) {
  struct seen* seen = context;
  if (index == seen->count) ++seen->in_order;
  seen->codes[index] = reply->code;
  seen->bytes += reply->value_bytes;
  seen->number = reply->number;
  ++seen->count;
}

static void see_item(void* context, const char* key, size_t key_bytes, const tandem_reply* item) {
  struct seen* seen = context;
  CHECK(key_bytes != 0 && key != NULL && item->value != NULL);
  seen->bytes += item->value_bytes;
  ++seen->count;
}

static void values(tandem_store* store) {
  tandem_value value;
  uint64_t number = 0, cas;
  memset(&value, 0, sizeof value);
  CHECK(tandem_get(store, KEY, &value) == TANDEM_MISS);
  CHECK(value.bytes == NULL);
  CHECK(tandem_replace(store, KEY, "1", 1, 0, 0) == TANDEM_NOT_STORED);
  CHECK(tandem_set(store, KEY, "42", 2, 60, 7) == TANDEM_STORED);
  CHECK(tandem_add(store, KEY, "1", 1, 0, 0) == TANDEM_NOT_STORED);
  CHECK(tandem_get(store, KEY, &value) == TANDEM_HIT);
  CHECK(is_value(&value, "42") && value.flags == 7);
  cas = value.cas;
  CHECK(tandem_append(store, KEY, "0", 1) == TANDEM_STORED);
  CHECK(tandem_prepend(store, KEY, "1", 1) == TANDEM_STORED);
  CHECK(tandem_compare_and_set(store, KEY, "0", 1, cas, 0, 0) == TANDEM_EXISTS);
  CHECK(tandem_get(store, KEY, &value) == TANDEM_HIT && is_value(&value, "1420"));
  CHECK(tandem_compare_and_set(store, KEY, "10", 2, value.cas, 0, 0) == TANDEM_STORED);
  CHECK(tandem_increment(store, KEY, 5, &number) == TANDEM_HIT && number == 15);
  CHECK(tandem_decrement(store, KEY, 20, &number) == TANDEM_HIT && number == 0);
  CHECK(tandem_increment(store, KEY, 1, NULL) == TANDEM_HIT);
  CHECK(tandem_touch(store, KEY, 100) == TANDEM_HIT);
  CHECK(tandem_set(store, KEY, NULL, 0, 0, 0) == TANDEM_STORED);
  CHECK(tandem_get(store, KEY, &value) == TANDEM_HIT && value.size == 0);
  CHECK(tandem_increment(store, KEY, 1, &number) == TANDEM_NOT_A_NUMBER);
  CHECK(tandem_exchange(store, KEY, "new", 3, 0, 9, &value) == TANDEM_HIT && value.size == 0 && value.flags == 0);
  CHECK(tandem_take(store, KEY, &value) == TANDEM_REMOVED && is_value(&value, "new") && value.flags == 9);
  CHECK(tandem_take(store, KEY, &value) == TANDEM_MISS && is_value(&value, "new"));
  CHECK(tandem_exchange(store, KEY, "1", 1, 0, 0, NULL) == TANDEM_STORED);
  CHECK(tandem_remove(store, KEY) == TANDEM_REMOVED);
  CHECK(tandem_remove(store, KEY) == TANDEM_MISS);
  CHECK(tandem_get(store, NULL, 0, &value) == TANDEM_BAD_KEY);
  {
    const size_t large = 2u << 20;
    char* bytes = calloc(1, large);
    CHECK(bytes != NULL && tandem_set(store, KEY, bytes, large, 0, 0) == TANDEM_TOO_LARGE);
    CHECK(tandem_append(store, KEY, bytes, large) == TANDEM_NOT_STORED);
    CHECK(tandem_set(store, KEY, "1", 1, 0, 0) == TANDEM_STORED);
    CHECK(tandem_append(store, KEY, bytes, large) == TANDEM_TOO_LARGE && tandem_remove(store, KEY) == TANDEM_REMOVED);
    free(bytes);
  }
  tandem_value_free(&value);
  CHECK(value.bytes == NULL && value.capacity == 0);
}

static void batches(tandem_store* store) {
  enum { count = 600 }; /* more than the library takes at once */
  static char keys[count][8];
  static tandem_request requests[count];
  static struct seen seen;
  tandem_stats stats;
  size_t i;
  memset(requests, 0, sizeof requests);
  for (i = 0; i < count; ++i) {
    sprintf(keys[i], "k%d", (int)i);
    requests[i].action = TANDEM_SET;
    requests[i].key = keys[i];
    requests[i].key_bytes = strlen(keys[i]);
    requests[i].value = "value";
    requests[i].value_bytes = 5;
  }
  CHECK(tandem_execute(store, requests, count, see, &seen) == TANDEM_HIT);
  CHECK(seen.count == count && seen.in_order == count && seen.codes[599] == TANDEM_STORED);
  for (i = 0; i < count; ++i) requests[i].action = TANDEM_GET;
  memset(&seen, 0, sizeof seen);
  CHECK(tandem_execute(store, requests, count, see, &seen) == TANDEM_HIT);
  CHECK(seen.count == count && seen.bytes == (size_t)5 * count && seen.codes[0] == TANDEM_HIT);

  requests[1].action = TANDEM_TAKE + 1;
  memset(&seen, 0, sizeof seen);
  CHECK(tandem_execute(store, requests, 2, see, &seen) == TANDEM_BAD_REQUEST && seen.count == 0);
  CHECK(tandem_execute(store, NULL, 0, see, &seen) == TANDEM_HIT && seen.count == 0);

  CHECK(tandem_for_each(store, see_item, &seen) == TANDEM_HIT);
  CHECK(seen.count == count && seen.bytes == (size_t)5 * count);
  tandem_get_stats(store, &stats, sizeof stats);
  CHECK(stats.struct_bytes == sizeof stats && stats.items == count && stats.memory_limit_bytes == 64u << 20);
  tandem_clear(store);
  memset(&seen, 0, sizeof seen);
  CHECK(tandem_for_each(store, see_item, &seen) == TANDEM_HIT && seen.count == 0);
}

static void rows(tandem_store* store) {
  struct row {
    uint32_t key, value;
  };
  static struct row all[600], read[600];
  uint8_t codes[600];
  tandem_reply reply;
  tandem_keys keys;
  size_t i, hits = 0;
  uint32_t out = 0;
  for (i = 0; i < 600; ++i) {
    all[i].key = read[i].key = (uint32_t)i;
    all[i].value = (uint32_t)(3 * i);
  }
  keys.bytes = &all[0].key;
  keys.key_bytes = 4;
  keys.stride = sizeof all[0];
  keys.count = 600;
  CHECK(tandem_set_rows(store, &keys, &all[0].value, 4, sizeof all[0], 60, codes) == TANDEM_HIT);
  CHECK(codes[0] == TANDEM_STORED && codes[599] == TANDEM_STORED);
  CHECK(tandem_get_rows(store, &keys, &read[0].value, 4, sizeof read[0], codes, &hits) == TANDEM_HIT);
  CHECK(hits == 600 && codes[7] == 1 && memcmp(all, read, sizeof all) == 0);
  CHECK(tandem_get_into(store, (const char*)&all[7].key, 4, &out, sizeof out, &reply) == TANDEM_HIT);
  CHECK(out == 21 && reply.value_bytes == 4 && reply.value == (const char*)&out);
  CHECK(tandem_touch_rows(store, &keys, 100, codes) == TANDEM_HIT && codes[599] == 1);
  CHECK(tandem_remove_rows(store, &keys, codes) == TANDEM_HIT && codes[599] == 1);
  CHECK(tandem_touch_rows(store, &keys, 0, codes) == TANDEM_HIT && codes[599] == 0);
  keys.key_bytes = 251;
  CHECK(tandem_remove_rows(store, &keys, NULL) == TANDEM_BAD_KEY);
}

struct scan {
  char keys[2000][8];
  size_t count, value_bytes;
};

static void see_scanned(void* context, const char* key, size_t key_bytes, const tandem_reply* item) {
  struct scan* scan = context;
  if (!CHECK(scan->count < 2000 && key_bytes < 8 && item->code == TANDEM_HIT && item->cas != 0)) return;
  memcpy(scan->keys[scan->count], key, key_bytes);
  scan->keys[scan->count++][key_bytes] = 0;
  scan->value_bytes += item->value_bytes;
}

struct batch {
  size_t counts[20];
  char last[20][8];
};

static void see_of_batch(void* context, size_t index, const char* key, size_t key_bytes, const tandem_reply* item) {
  struct batch* batch = context;
  if (!CHECK(index < 20 && key_bytes == 5 && item->code == TANDEM_HIT && item->value_bytes == 5)) return;
  ++batch->counts[index];
  memcpy(batch->last[index], key, key_bytes);
}

/* Of k0000 to k1999: 20 scans of 100 keys each, in steps of 30 items, which go on in the structures that they fill. */
static void scan_batches(tandem_store* store) {
  static struct batch batch;
  static tandem_range_scan scans[20];
  char begin[20][8], end[20][8];
  int i, left = 20;
  CHECK(tandem_scan_batch(store, NULL, 0, see_of_batch, &batch) == TANDEM_HIT);
  for (i = 0; i < 20; ++i) {
    sprintf(begin[i], "k%02d", i);
    sprintf(end[i], "k%02d:", i);
    scans[i].range.begin = begin[i];
    scans[i].range.begin_bytes = 3;
    scans[i].range.end = end[i];
    scans[i].range.end_bytes = 4;
    scans[i].limit = 30;
  }
  scans[19].limit = 0;
  CHECK(tandem_scan_batch(store, scans, 20, see_of_batch, &batch) == TANDEM_BAD_REQUEST);
  scans[19].limit = 30;
  scans[7].range.reserved[0] = 1;
  CHECK(tandem_scan_batch(store, scans, 20, see_of_batch, &batch) == TANDEM_BAD_REQUEST && batch.counts[0] == 0);
  scans[7].range.reserved[0] = 0;
  while (left == 20) {
    CHECK(tandem_scan_batch(store, scans, 20, see_of_batch, &batch) == TANDEM_HIT);
    for (i = 0, left = 0; i < 20; ++i) {
      if (!CHECK(scans[i].scanned.count <= 30)) return;
      left += !scans[i].scanned.done;
      if (!scans[i].scanned.done) tandem_go_on_behind(&scans[i].range, &scans[i].scanned);
    }
  }
  for (i = 0; i < 20; ++i) {
    CHECK(left == 0 && batch.counts[i] == 100 && strncmp(batch.last[i], begin[i], 3) == 0);
    CHECK(memcmp(batch.last[i] + 3, "99", 2) == 0);
  }
}

static void scans(void) {
  static struct scan scan, all;
  tandem_options options;
  tandem_store* store;
  tandem_range range;
  tandem_range_scan unordered;
  tandem_scanned end;
  char key[8], above[8];
  uint64_t removed = 0, moved = 0;
  int i;
  tandem_options_init(&options, sizeof options);
  options.memory_bytes = 64u << 20;
  store = tandem_open(&options, NULL, 0);
  CHECK(tandem_scan(store, NULL, 1, see_scanned, &scan, &end) == TANDEM_NOT_ORDERED && scan.count == 0);
  CHECK(tandem_remove_range(store, NULL, &removed) == TANDEM_NOT_ORDERED);
  CHECK(tandem_arrange(store, &removed) == TANDEM_NOT_ORDERED);
  memset(&unordered, 0, sizeof unordered);
  unordered.limit = 1;
  CHECK(tandem_scan_batch(store, &unordered, 1, see_of_batch, NULL) == TANDEM_NOT_ORDERED);
  tandem_close(store);

  options.ordered = 1;
  store = tandem_open(&options, NULL, 0);
  CHECK(tandem_scan(store, NULL, 10, see_scanned, &scan, &end) == TANDEM_HIT && scan.count == 0 && end.done);
  for (i = 1999; i >= 0; --i) {
    sprintf(key, "k%04d", i);
    CHECK(tandem_set(store, key, 5, "value", 5, 0, (uint32_t)i) == TANDEM_STORED);
  }
  CHECK(tandem_scan(store, NULL, 0, see_scanned, &scan, &end) == TANDEM_BAD_REQUEST && scan.count == 0);
  memset(&range, 0, sizeof range);
  range.reserved[5] = 1;
  CHECK(tandem_scan(store, &range, 1, see_scanned, &scan, &end) == TANDEM_BAD_REQUEST && scan.count == 0);
  CHECK(tandem_remove_range(store, &range, NULL) == TANDEM_BAD_REQUEST);

  /* They were set in falling order. */
  CHECK(options.arrange == 1);
  CHECK(tandem_arrange(store, &moved) == TANDEM_HIT && moved > 1900 && moved <= 2000);
  CHECK(tandem_arrange(store, NULL) == TANDEM_HIT);

  /* The range goes on in the structure that the next scan fills. */
  memset(&range, 0, sizeof range);
  do {
    CHECK(tandem_scan(store, &range, 300, see_scanned, &all, &end) == TANDEM_HIT && end.count <= 300);
    tandem_go_on_behind(&range, &end);
  } while (!end.done);
  CHECK(all.count == 2000 && all.value_bytes == 10000);
  for (i = 0; i < 2000 && all.count == 2000; ++i) {
    sprintf(key, "k%04d", i);
    CHECK(strcmp(all.keys[i], key) == 0);
  }

  memset(&range, 0, sizeof range);
  range.begin = "k0010";
  range.end = "k0020";
  range.begin_bytes = range.end_bytes = 5;
  range.reverse = 1;
  CHECK(tandem_scan(store, &range, 4, see_scanned, &scan, &end) == TANDEM_HIT && !end.done);
  CHECK(scan.count == 4 && strcmp(scan.keys[0], "k0019") == 0 && strcmp(scan.keys[3], "k0016") == 0);
  CHECK(end.last_bytes == 5 && memcmp(end.last, "k0016", 5) == 0);
  tandem_go_on_behind(&range, &end);
  scan.count = 0;
  CHECK(tandem_scan(store, &range, 100, see_scanned, &scan, NULL) == TANDEM_HIT);
  CHECK(scan.count == 6 && strcmp(scan.keys[0], "k0015") == 0 && strcmp(scan.keys[5], "k0010") == 0);

  scan_batches(store);
  tandem_range_of_prefix(&range, "k19", 3, above);
  CHECK(range.end == above && range.end_bytes == 3 && memcmp(above, "k1:", 3) == 0);
  CHECK(tandem_remove_range(store, &range, &removed) == TANDEM_HIT && removed == 100);
  CHECK(tandem_remove_range(store, &range, &removed) == TANDEM_HIT && removed == 0);
  tandem_range_of_prefix(&range, "\377", 1, above);
  CHECK(range.end_bytes == 0);
  tandem_range_of_prefix(&range, NULL, 0, above);
  CHECK(tandem_remove_range(store, &range, NULL) == TANDEM_HIT);
  scan.count = 0;
  CHECK(tandem_scan(store, NULL, 10, see_scanned, &scan, &end) == TANDEM_HIT && end.done && end.count == 0);
  tandem_close(store);
}

/* Programs that were built with a smaller or a larger structure. */
static void other_versions(void) {
  struct {
    tandem_options known;
    uint64_t more;
  } newer;
  char error[64] = "";
  tandem_store* store;
  tandem_options older;
  tandem_stats stats;
  tandem_options_init(&newer.known, sizeof newer);
  newer.known.memory_bytes = 64u << 20;
  store = tandem_open(&newer.known, error, sizeof error);
  CHECK(store != NULL);
  tandem_close(store);
  newer.more = 1;
  CHECK(tandem_open(&newer.known, error, sizeof error) == NULL);
  CHECK(strstr(error, "does not know") != NULL);

  memset(&older, 0xff, sizeof older);
  tandem_options_init(&older, offsetof(tandem_options, hash_seed));
  CHECK(older.hash_seed == UINT64_MAX);
  older.memory_bytes = 64u << 20;
  store = tandem_open(&older, error, sizeof error);
  CHECK(store != NULL);
  memset(&stats, 0xff, sizeof stats);
  tandem_get_stats(store, &stats, offsetof(tandem_stats, item_bytes));
  CHECK(stats.items == 0 && stats.item_bytes == UINT64_MAX);
  tandem_close(store);
}

static void* set_once(void* store) {
  static tandem_code code;
  code = tandem_set(store, KEY, "1", 1, 0, 0);
  return &code;
}

static tandem_code in_another_thread(tandem_store* store) {
  pthread_t thread;
  void* code = NULL;
  CHECK(pthread_create(&thread, NULL, set_once, store) == 0 && pthread_join(thread, &code) == 0);
  return *(tandem_code*)code;
}

/* A thread's place in the store is free again when it has ended. */
static void threads(void) {
  tandem_options options;
  tandem_store* store;
  tandem_options_init(&options, sizeof options);
  options.memory_bytes = 64u << 20;
  options.threads_max = 1;
  store = tandem_open(&options, NULL, 0);
  CHECK(store != NULL);
  CHECK(in_another_thread(store) == TANDEM_STORED);
  CHECK(tandem_set(store, KEY, "2", 1, 0, 0) == TANDEM_STORED);
  CHECK(in_another_thread(store) == TANDEM_TOO_MANY_THREADS);
  tandem_close(store);
}

int main(void) {
  tandem_options options;
  char error[64] = "";
  tandem_store* store;
  char version[40];
  sprintf(version, "%d.%d.%d", TANDEM_VERSION_MAJOR, TANDEM_VERSION_MINOR, TANDEM_VERSION_PATCH);
  CHECK(strcmp(tandem_version(), WANTED_VERSION) == 0 && strcmp(version, WANTED_VERSION) == 0);
  memset(&options, 0, sizeof options);
  CHECK(tandem_open(&options, NULL, 0) == NULL);
  tandem_options_init(&options, sizeof options);
  options.memory_bytes = 1;
  CHECK(tandem_open(&options, error, sizeof error) == NULL && error[0] != 0);
  CHECK(tandem_open(&options, NULL, 0) == NULL);
  CHECK(tandem_open(&options, error, 4) == NULL && strlen(error) == 3);
  options.memory_bytes = 64u << 20;
  store = tandem_open(&options, error, sizeof error);
  if (!CHECK(store != NULL && error[0] == 0)) return 1;
  values(store);
  batches(store);
  rows(store);
  scans();
  tandem_close(store);
  tandem_close(NULL);
  other_versions();
  threads();
  if (failures == 0) puts("all of C's interface");
  return failures != 0;
}
