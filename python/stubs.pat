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

tandem._core.Store.pop$:
    @overload
    def pop(self, key: str | bytes) -> bytes:
        \doc
    @overload
    def pop(self, key: str | bytes, default: bytes) -> bytes: ...
    @overload
    def pop(self, key: str | bytes, default: bytes | _T) -> bytes | _T: ...

tandem._core.Store.update$:

