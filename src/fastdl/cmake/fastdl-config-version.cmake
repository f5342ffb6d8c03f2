# SPDX-License-Identifier: Apache-2.0
# Whether this release serves find_package(fastdl VERSION): it is not older, and of the same major
# version. The version is read from _version.py, its only source.

file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../_version.py" fastdl_version_line
     REGEX "^__version__ = "
)
string(REGEX MATCH "[0-9]+(\\.[0-9]+)*" PACKAGE_VERSION "${fastdl_version_line}")
string(REGEX MATCH "^[0-9]+" fastdl_version_major "${PACKAGE_VERSION}")

set(PACKAGE_VERSION_COMPATIBLE FALSE)
set(PACKAGE_VERSION_EXACT FALSE)
if(PACKAGE_FIND_VERSION_RANGE)
  if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION_MIN)
    # too old
  elseif(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION_MAX
         OR (PACKAGE_FIND_VERSION_RANGE_MAX STREQUAL "INCLUDE"
             AND PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION_MAX)
  )
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
  endif()
elseif(PACKAGE_VERSION VERSION_GREATER_EQUAL PACKAGE_FIND_VERSION
       AND fastdl_version_major EQUAL PACKAGE_FIND_VERSION_MAJOR
)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()

unset(fastdl_version_line)
unset(fastdl_version_major)
