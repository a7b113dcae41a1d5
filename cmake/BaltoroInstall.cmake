# What `cmake --install` writes: the binary, the library with its CMake package and its pkg-config file, the small model, documents
# and licences. Nothing in it names its place, so the tree may be moved.
include(CMakePackageConfigHelpers)

install(TARGETS baltoro)
install(TARGETS baltoro_library EXPORT baltoroTargets)
install(DIRECTORY include/baltoro DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY models/story DESTINATION ${CMAKE_INSTALL_DATADIR}/baltoro/models)
install(FILES LICENSE NOTICE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(BALTORO_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/baltoro)
install(EXPORT baltoroTargets NAMESPACE baltoro:: DESTINATION ${BALTORO_PACKAGE_DIR})
configure_package_config_file(cmake/baltoroConfig.cmake.in ${PROJECT_BINARY_DIR}/baltoroConfig.cmake
  INSTALL_DESTINATION ${BALTORO_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/baltoroConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/baltoroConfig.cmake ${PROJECT_BINARY_DIR}/baltoroConfigVersion.cmake
  DESTINATION ${BALTORO_PACKAGE_DIR})

file(RELATIVE_PATH BALTORO_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/baltoro.pc.in ${PROJECT_BINARY_DIR}/baltoro.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/baltoro.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
