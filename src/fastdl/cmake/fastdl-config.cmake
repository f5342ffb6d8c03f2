# SPDX-License-Identifier: Apache-2.0
# The CMake package of fastdl.
#
#     find_package(fastdl 0.1 CONFIG REQUIRED)
#     target_link_libraries(your_module PRIVATE fastdl::fastdl)
#
# fastdl::fastdl brings the folder of <fastdl/fastdl.h>, and no library. fastdl::source brings that
# and fastdl.c as one more source, for a project whose LANGUAGES include C; link it instead, unless
# a file of the module defines FASTDL_IMPLEMENTATION. Python's own headers come with your module:
# python_add_library, nanobind_add_module, pybind11_add_module.
#
# CMake finds this file by -Dfastdl_DIR=$(python -m fastdl --cmakedir), by that folder in
# CMAKE_PREFIX_PATH, or by itself under scikit-build-core.

if(NOT TARGET fastdl::fastdl)
  get_filename_component(fastdl_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)
  if(NOT EXISTS "${fastdl_INCLUDE_DIR}/fastdl/fastdl.h") # a source tree
    get_filename_component(fastdl_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../../../include" ABSOLUTE)
  endif()
  add_library(fastdl::fastdl INTERFACE IMPORTED)
  set_target_properties(
    fastdl::fastdl PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${fastdl_INCLUDE_DIR}"
  )
  add_library(fastdl::source INTERFACE IMPORTED)
  set_target_properties(
    fastdl::source PROPERTIES INTERFACE_LINK_LIBRARIES fastdl::fastdl
                              INTERFACE_SOURCES "${fastdl_INCLUDE_DIR}/fastdl/fastdl.c"
  )
endif()
