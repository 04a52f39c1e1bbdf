"""The wheel's tag: the program inside is static, so it runs on every C library of its processor."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ForOneProcessor(BuildHookInterface):
    def initialize(self, version, build_data):
        arch = os.environ["HIGHWATER_ARCH"]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_17_{arch}.manylinux2014_{arch}.musllinux_1_1_{arch}"
