tandem._core.__prefix__:
    \from typing import TypeVar, overload
    _Key = TypeVar("_Key", bound=str | bytes)
    _T = TypeVar("_T")
    __version__: str

tandem._core.Store.get$:
    @overload
    def get(self, key: str | bytes, default: None = None) -> bytes | None:
        \doc
    @overload
    def get(self, key: str | bytes, default: bytes) -> bytes: ...
    @overload
    def get(self, key: str | bytes, default: bytes | _T) -> bytes | _T: ...

tandem._core.Store.__getitem__$:
    def __getitem__(self, key: str | bytes, /) -> bytes: ...

tandem._core.Store.__setitem__$:
    \from typing_extensions import Buffer
    def __setitem__(self, key: str | bytes, value: Buffer, /) -> None: ...

tandem._core.Store.__delitem__$:
    def __delitem__(self, key: str | bytes, /) -> None: ...

tandem._core.Store.__contains__$:
    def __contains__(self, key: object, /) -> bool: ...

tandem._core.Store.set$:
    \import datetime
    def set(self, key: str | bytes, value: Buffer, ttl: float | datetime.timedelta | None = None, *, flags: int = 0) -> None:
        \doc

tandem._core.Store._get_data$:
    def _get_data(self, key: str | bytes, /) -> tuple[bytes, int] | None: ...

tandem._core.Store.pop$:
    @overload
    def pop(self, key: str | bytes) -> bytes:
        \doc
    @overload
    def pop(self, key: str | bytes, default: bytes) -> bytes: ...
    @overload
    def pop(self, key: str | bytes, default: bytes | _T) -> bytes | _T: ...

tandem._core.Store.update$:

