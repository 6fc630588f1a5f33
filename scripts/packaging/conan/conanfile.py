# A Conan 2 recipe for horo, for the sources that it lies in:
#   conan create scripts/packaging/conan -s compiler.cppstd=20 -o "horo/*:system_libs=True"
# MPI, oneDNN and the CUDA toolkit come from the system, as the jobs that use them do. With system_libs=True, so do all others.
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir


class HoroConan(ConanFile):
    name = "horo"
    license = "Apache-2.0"
    description = "Synchronous data-parallel training from C++ programs that mpirun starts"
    topics = ("mpi", "nccl", "deep-learning", "allreduce")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "ops": [True, False], "train": [True, False], "launcher": [True, False],
               "c": [True, False], "cuda": [True, False], "system_libs": [True, False]}
    default_options = {"shared": True, "ops": False, "train": False, "launcher": True, "c": True, "cuda": False,
                       "system_libs": False}

    def set_version(self):
        root = os.path.join(self.recipe_folder, "..", "..", "..")
        if os.path.exists(os.path.join(root, "CMakeLists.txt")):
            self.version = re.search(r"project\(horo VERSION ([\d.]+)", load(self, os.path.join(root, "CMakeLists.txt"))).group(1)

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..", "..")
        for pattern in ("CMakeLists.txt", "LICENSE", "*.md", "cmake/*", "collectives/*", "docs/*", "horo/*", "launcher/*", "ops/*"):
            copy(self, pattern, src=root, dst=self.export_sources_folder, excludes="build/*")

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("horo runs on Linux only")
        if self.options.train and not self.options.ops:
            raise ConanInvalidConfiguration("horo: train=True needs ops=True")

    def requirements(self):
        if self.options.system_libs:
            return
        self.requires("fmt/[>=9 <11]")
        self.requires("spdlog/[>=1.10 <2]")
        if self.options.ops or self.options.launcher:
            self.requires("zlib/[>=1.2.11 <2]")
        if self.options.train:
            self.requires("nlohmann_json/[>=3.11 <4]")
        if self.options.launcher:
            self.requires("boost/[>=1.74 <2]")
        if self.options.ops:
            self.requires("libpng/[>=1.6 <2]")
            self.requires("libjpeg-turbo/[>=2 <4]")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        switches = {"HORO_SHARED": self.options.shared, "HORO_BUILD_OPS": self.options.ops, "HORO_BUILD_TRAIN": self.options.train,
                    "HORO_BUILD_LAUNCHER": self.options.launcher, "HORO_BUILD_C": self.options.c,
                    "HORO_WITH_CUDA": self.options.cuda, "HORO_BUILD_EXAMPLES": False, "BUILD_TESTING": False}
        for name, value in switches.items():
            toolchain.cache_variables[name] = "ON" if value else "OFF"
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        rmdir(self, os.path.join(self.package_folder, "share"))

    def package_info(self):
        # horo's own horoConfig.cmake defines the targets.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "horo")]
        self.cpp_info.libs = ["horo"]
        self.cpp_info.set_property("pkg_config_name", "none")
