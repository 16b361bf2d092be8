# Beside the program: manual pages, completions, unit and settings. TandemPackage.cmake has the embedded library.
if(NOT TARGET tandem)
  return()
endif()

# generated(FILE WORD...): what the program prints when it is called with the words.
set(texts ${PROJECT_BINARY_DIR}/texts)
function(generated file)
  add_custom_command(OUTPUT ${texts}/${file}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${texts}
    COMMAND tandem ${ARGN} > ${texts}/${file}
    DEPENDS tandem VERBATIM)
  set_property(GLOBAL APPEND PROPERTY TANDEM_TEXTS ${texts}/${file})
endfunction()
generated(tandem.1 manual tandem)
generated(tandem.toml.5 manual tandem.toml)
generated(tandem.bash completion bash)
generated(_tandem completion zsh)
generated(tandem.fish completion fish)
get_property(generated_texts GLOBAL PROPERTY TANDEM_TEXTS)
if(TANDEM_SANITIZE)
  add_custom_target(tandem_texts DEPENDS ${generated_texts})  # the program may not run everywhere
else()
  add_custom_target(tandem_texts ALL DEPENDS ${generated_texts})
endif()

install(FILES ${texts}/tandem.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT server)
install(FILES ${texts}/tandem.toml.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT server)
install(FILES ${texts}/tandem.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tandem
  COMPONENT server)
install(FILES ${texts}/tandem.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT server)
if(TARGET tandem-member)
  install(FILES deploy/tandem-member.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT server)
  add_dependencies(tandem_texts tandem-member)  # `make build` asks for the one, and installs both
endif()
install(FILES deploy/tandem.toml CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT server)

# What depends on the prefix, which is known only when files are installed.
configure_file(cmake/install_service.cmake.in ${PROJECT_BINARY_DIR}/install_service.cmake @ONLY)
install(SCRIPT ${PROJECT_BINARY_DIR}/install_service.cmake COMPONENT server)
