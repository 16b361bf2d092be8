.PHONY: build
build:
	cmake -S . -B build -G Ninja
	cmake --build build -j2
