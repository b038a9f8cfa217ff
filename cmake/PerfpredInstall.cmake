include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/perfpred)

install(DIRECTORY include/perfpred DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} PATTERN torch EXCLUDE)
install(FILES ${PROJECT_BINARY_DIR}/generated/perfpred/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/perfpred)
install(FILES data/devices.csv DESTINATION ${CMAKE_INSTALL_DATADIR}/perfpred)
install(TARGETS perfpred_core EXPORT perfpred-core)
install(EXPORT perfpred-core FILE perfpred-core.cmake NAMESPACE perfpred:: DESTINATION ${config_dir})
