# A Spack package for horo. Put it into packages/horo/ of a Spack repository and set `git`.
from spack.package import *


class Horo(CMakePackage, CudaPackage):
    """Synchronous data-parallel training from C++ programs that mpirun starts."""

    homepage = "https://example.org/horo"
    git = "https://example.org/horo.git"

    license("Apache-2.0")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("shared", default=True, description="Build libhoro.so beside libhoro.a")
    variant("ops", default=True, description="Build the layers and data sets")
    variant("train", default=True, when="+ops", description="Build the trainer")
    variant("c", default=True, description="Build the C interface")
    variant("launcher", default=True, description="Build hororun")
    variant("images", default=True, when="+ops", description="Read PNG and JPEG images")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("mpi")
    depends_on("fmt@9:")
    depends_on("spdlog@1.10:+fmt_external")
    depends_on("zlib-api", when="+ops")
    depends_on("zlib-api", when="+launcher")
    depends_on("onednn@2.6:2", when="+ops")
    depends_on("nlohmann-json@3.11:", when="+train")
    depends_on("boost@1.74:+program_options", when="+launcher", type=("build", "link"))
    depends_on("libpng", when="+images")
    depends_on("jpeg", when="+images")
    depends_on("nccl", when="+cuda")
    depends_on("cudnn@9", when="+cuda+ops")

    conflicts("%gcc@:11", msg="horo needs GCC 12 or later")
    conflicts("%clang@:13", msg="horo needs Clang 14 or later")
    conflicts("cuda_arch=none", when="+cuda", msg="name the GPUs: cuda_arch=90")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define_from_variant("HORO_SHARED", "shared"),
            self.define_from_variant("HORO_BUILD_OPS", "ops"),
            self.define("HORO_BUILD_TRAIN", self.spec.satisfies("+train")),
            self.define_from_variant("HORO_BUILD_C", "c"),
            self.define_from_variant("HORO_BUILD_LAUNCHER", "launcher"),
            self.define_from_variant("HORO_WITH_CUDA", "cuda"),
            self.define("HORO_BUILD_EXAMPLES", False),
            self.define("BUILD_TESTING", False),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return args
