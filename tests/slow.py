"""Slow tests, which only `make test-all` runs, in addition to those marked with `pytest.mark.slow`.

They were chosen by their duration. Most have a faster variant that `make test` runs, such as another case of
the same test. Two files are left out completely (`page/test_edge_cases.py`,
`analysis/quantities/test_errors.py`). Patterns are those of `fnmatch`, for node ids without `tests/`; the
case of a parametrized test is in brackets.
"""

from fnmatch import fnmatchcase

PATTERNS = (
    # One process dies at every fault point in turn in test_run_killed_repeatedly_continues.
    "chaos/test_crashes.py::test_run_killed_at_any_fault_point_continues*",
    "chaos/test_random_crashes.py::test_run_killed_at_random_times_continues[[]?]",
    "chaos/test_random_crashes.py::test_other_commands_killed_at_random_times_can_be_repeated[[]0-[ce]*",
    "chaos/test_crashes.py::test_command_killed_at_any_fault_point_can_be_repeated*retry*",
    "chaos/test_crashes.py::test_command_killed_at_any_fault_point_can_be_repeated*ledger*",
    "chaos/test_crashes.py::test_long_run_continues_from_its_checkpoint[[]2]",
    "chaos/test_blame.py::test_run_that_progresses_between_deaths_is_not_blamed",
    "chaos/test_damage.py::*[[]statuses]",
    "chaos/test_damage.py::*[[]*metadata]",
    "chaos/test_damage.py::*[[]keys]",
    "chaos/test_damage.py::*[[]an array gone]",
    "api/test_damaged_data.py::*[[]truncated chunk]",
    "api/test_damaged_data.py::*[[]missing statuses]",
    "api/test_damaged_data.py::*[[]flipped *e]",
    "api/test_damaged_data.py::*[[]broken metadata]",
    "api/test_damaged_data.py::test_damaged_runs_are_not_reused",
    "api/test_damaged_data.py::test_lost_ledger*",
    "cli/test_verify.py::*[[]truncated chunk]",
    "cli/test_verify.py::*[[]missing *]",
    "cli/test_verify.py::*[[]flipped *e*]",
    "cli/test_verify.py::*[[]broken metadata]",
    "cli/test_verify.py::test_newer_layout_is_refused_by_the_doctor_too",
    "execution/test_repair.py::test_every_kind_of_damage_is_found_and_repaired",
    "execution/test_repair.py::test_damaged_parts_and_failure_records_are_repaired",
    "execution/test_repair.py::test_paused_sweep_stays_paused",
    "execution/test_repair.py::test_done_runs_without_values_are_found",
    "execution/test_repair.py::test_repair_that_is_interrupted_is_done_again",
    "execution/test_repair.py::test_ledger_that_counts_other_runs_is_corrected",
    "execution/test_repair.py::test_sweep_of_which_nothing_is_left_fails_with_a_reason",
    "chaos/test_full_disk.py::test_sweep_waits_for_disk_space_and_continues[[]no room to begin]",
    "chaos/test_full_disk.py::test_waiting_sweep_*",
    # Tests in a real browser.
    "page/test_form.py::test_edit_of_the_title_preserves_the_rest_of_the_spec[[]{'init'*",
    "page/test_form.py::test_edit_of_the_title_preserves_the_rest_of_the_spec[[]{'observables'*",
    "page/test_form.py::test_edit_of_the_title_preserves_the_rest_of_the_spec[[]{'seeds'*",
    "page/test_form.py::test_edit_of_the_title_preserves_the_rest_of_the_spec[[]{'fixed'*",
    "page/test_form.py::test_fast_typing_does_not_exceed_the_limit_of_address_changes",
    "page/test_compose.py::test_invalid_value_is_reported_at_its_field[[]seeds*",
    "page/test_compose.py::test_invalid_value_is_reported_at_its_field[[]time*",
    "page/test_compose.py::test_invalid_value_is_reported_at_its_field[[]init*",
    "page/test_compose.py::test_invalid_text_is_reported_and_cannot_be_submitted",
    "page/test_compose.py::test_every_design_gives_a_valid_spec",
    "page/test_compose.py::test_address_contains_the_spec",
    "page/test_views.py::test_every_view_has_a_figure*",
    "page/test_views.py::test_map_click_opens_curves",
    "page/test_edge_cases.py::*",
    "page/test_accessibility.py::test_axe_finds_no_serious_violation[[]/compose]",
    "page/test_accessibility.py::test_axe_finds_no_serious_violation[[]/sweeps/GRID]",
    "page/test_accessibility.py::test_page_fits_a_phone[[]/sweeps/GRID*",
    "page/test_accessibility.py::test_layout_does_not_shift[[]/sweeps/GRID]",
    "page/test_accessibility.py::test_layout_does_not_shift[[]/compose]",
    "page/test_accessibility.py::test_page_loads_few_bytes[[]/c*",
    "page/test_sweeps.py::test_sweep_is_extended_and_deleted",
    # Tests that start processes and clusters.
    "workers/test_executor.py::test_stopping_writes_checkpoint",
    "workers/test_executor.py::test_small_sweep_does_not_wait_for_large_one",
    "workers/test_executor.py::test_higher_priority_goes_first",
    "workers/test_executor.py::test_no_cluster_is_started_for_existing_sweep",
    "api/test_service.py::test_stopped_service_closes_open_streams",
    "api/test_service.py::test_folder_and_port_have_one_service",
    "api/test_service.py::test_service_stopped_while_starting_ends",
    "api/test_service_routes.py::test_unfinished_response_does_not_delay_exit",
    "api/test_contents.py::test_cluster_lists_dask_workers",
    "cli/test_service.py::test_service_stops_on_a_signal_while_it_is_watched*",
    "cli/test_all.py::test_every_command_prints_text_and_json[[]doctor*",
    "cli/test_all.py::test_second_process_is_refused_while_the_folder_is_in_use",
    "cli/test_export.py::test_csv_export_in_blocks",
    "cli/test_presets.py::test_presets_are_listed_and_printed",
    "store/*::test_killed_writer_leaves_the_old_or_the_new_content*",
    "store/test_s3.py::TestS3Objects::test_exactly_one_of_many_processes_creates",
    "store/test_s3.py::test_exactly_one_of_many_processes_takes_over",
    "store/test_ledger.py::test_killed_writers_leave_complete_sweeps",
    "numerics/test_jit.py::test_editing_kernel_starts_new_cache[[][!n]*",
    "numerics/test_jit.py::test_editing_kernel_starts_new_cache[[]numerics/v*",
    # Further cases of mathematical tests.
    "physics/test_simulators_law.py::test_one_block_has_means_and_covariances_of_sgd[[]wide*",
    "physics/test_simulators_law.py::test_law_agrees_over_random_starts[[]wide*",
    "physics/test_simulators_law.py::test_simulators_diverge_with_same_probability[[]0*",
    "physics/test_sgd_against_theory.py::test_regimes_describe_sgd_only_where_valid*wide*",
    "physics/test_sgd_against_theory.py::test_sgd_ends_at_noise_floor[[]40-40]",
    "simulators/test_checkpoint.py::test_many_records_do_not_delay_stopping*",
    "simulators/test_checkpoint.py::test_billion_steps_stop_promptly_and_resume[[]S[23]*",
    "numerics/test_simd.py::test_numbers_and_vectors_give_same_bits[[]erf_and_gauss]",
    "analysis/quantities/test_collapse.py::test_errors_of_exponents_are_their_scatter",
    "analysis/quantities/test_errors.py::*",
    "analysis/plots/test_save.py::test_files_do_not_depend_on_earlier_files",
    "figures/test_checks.py::test_golden_numbers_are_reproduced[[]rates]",
    "execution/test_recovery.py::test_damaged_sweep_does_not_stop_others_and_can_be_removed",
    "execution/test_reuse.py::test_reuse_does_not_depend_on_the_block_size",
    "execution/test_reuse.py::test_added_regime_leaves_old_runs_reusable[[]mean_field]",
)


def slow_patterns(node: str) -> set[str]:
    """Return the patterns that match a test; it is slow if there are any."""
    name = node.removeprefix("tests/")
    return {pattern for pattern in PATTERNS if fnmatchcase(name, pattern)}
