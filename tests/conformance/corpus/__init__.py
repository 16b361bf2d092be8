"""The generated command corpus. Seeded: the same cases in every run."""

from functools import cache

from conformance.corpus import meta_get, meta_store, retrieval, sequences, simple, storage
from conformance.corpus.case import Case, Group

BUILDERS = (
    retrieval.build,
    storage.build,
    simple.build_delete,
    simple.build_arithmetic,
    simple.build_touch,
    simple.build_server,
    simple.build_administration,
    meta_get.build,
    meta_get.build_recache,
    meta_get.build_errors,
    meta_get.build_base64,
    meta_get.build_debug,
    meta_store.build_set,
    meta_store.build_set_errors,
    meta_store.build_delete,
    meta_store.build_arithmetic,
    sequences.build_random,
    sequences.build_values,
    sequences.build_lines,
    sequences.build_damaged,
)


@cache
def groups() -> dict[str, Group]:
    built = [build() for build in BUILDERS]
    return {group.name: group for group in built}


GROUP_NAMES = tuple(groups())


def all_cases() -> list[Case]:
    return [case for group in groups().values() for case in group]
