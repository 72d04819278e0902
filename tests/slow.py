"""Tests that `make test` leaves to `make test-all`, beside those that are marked as slow where they stand.

They were chosen by their time. Most have a cheaper relative that stays, such as another case of the same
test; two files go as a whole (`page/test_corners.py`, `analysis/quantities/test_errors.py`), and nothing in
`make test` stands for them. The patterns are those of `fnmatch`, for node ids without `tests/`; what stands
in brackets is the case.
"""

from fnmatch import fnmatchcase

PATTERNS = (
    # One process dies at every fault point in turn in test_a_run_killed_again_and_again_goes_on.
    "chaos/test_crashes.py::test_a_run_killed_at_any_fault_point_goes_on*",
    "chaos/test_crashes.py::test_a_run_killed_at_random_times_goes_on[[]?]",
    "chaos/test_crashes.py::test_other_commands_may_be_killed_too[[]0-[ce]*",
    "chaos/test_crashes.py::test_a_command_killed_at_any_fault_point_can_be_given_again*retry*",
    "chaos/test_crashes.py::test_a_command_killed_at_any_fault_point_can_be_given_again*ledger*",
    "chaos/test_crashes.py::test_a_long_run_goes_on_from_its_checkpoint[[]2]",
    "chaos/test_blame.py::test_a_run_that_comes_further_each_time_is_not_to_blame",
    "chaos/test_damage.py::*[[]statuses]",
    "chaos/test_damage.py::*[[]*metadata]",
    "chaos/test_damage.py::*[[]keys]",
    "chaos/test_damage.py::*[[]an array gone]",
    "chaos/test_full_disk.py::test_a_sweep_waits_for_room_and_goes_on[[]no room to begin]",
    "chaos/test_full_disk.py::test_a_waiting_sweep_*",
    # In a real browser.
    "page/test_form.py::test_the_form_says_what_a_spec_says[[]{'init'*",
    "page/test_form.py::test_the_form_says_what_a_spec_says[[]{'observables'*",
    "page/test_form.py::test_the_form_says_what_a_spec_says[[]{'seeds'*",
    "page/test_form.py::test_the_form_says_what_a_spec_says[[]{'fixed'*",
    "page/test_form.py::test_many_letters",
    "page/test_compose.py::test_what_is_wrong_is_said_at_its_field[[]seeds*",
    "page/test_compose.py::test_what_is_wrong_is_said_at_its_field[[]time*",
    "page/test_compose.py::test_what_is_wrong_is_said_at_its_field[[]init*",
    "page/test_compose.py::test_a_text_that_is_wrong",
    "page/test_compose.py::test_designs",
    "page/test_compose.py::test_a_link_to_it",
    "page/test_views.py::test_figures*",
    "page/test_views.py::test_the_map_leads_to_curves",
    "page/test_corners.py::*",
    "page/test_manners.py::test_nothing_serious_for_axe[[]/compose]",
    "page/test_manners.py::test_nothing_serious_for_axe[[]/sweeps/GRID]",
    "page/test_manners.py::test_it_fits_a_phone[[]/sweeps/GRID*",
    "page/test_manners.py::test_nothing_jumps[[]/sweeps/GRID]",
    "page/test_manners.py::test_nothing_jumps[[]/compose]",
    "page/test_manners.py::test_little_to_load[[]/c*",
    "page/test_sweeps.py::test_extend_and_delete",
    # Processes and clusters that start anew.
    "workers/test_executor.py::test_stopping_saves_what_a_long_run_has",
    "workers/test_executor.py::test_a_small_sweep_does_not_stand_behind_a_large_one",
    "workers/test_executor.py::test_a_higher_priority_goes_first",
    "workers/test_executor.py::test_nothing_is_started_for_a_sweep_that_is_there",
    "api/test_service.py::test_a_stopped_service_ends_with_all_that_is_open",
    "api/test_service.py::test_one_service_for_a_folder_and_one_for_a_port",
    "api/test_service.py::test_a_service_that_is_stopped_while_it_starts_ends",
    "api/test_service_routes.py::test_an_answer_for_nobody_does_not_keep_the_process",
    "api/test_contents.py::test_workers_of_dask",
    "cli/test_service.py::test_a_service_ends_when_it_is_asked_to_while_it_is_watched*",
    "cli/test_all.py::test_every_command_answers[[]doctor*",
    "cli/test_all.py::test_a_second_process_is_told_that_the_folder_is_in_use",
    "cli/test_export.py::test_an_export_to_csv_goes_block_by_block",
    "cli/test_presets.py::test_presets_are_listed_and_printed",
    "store/*::test_killed_writer_leaves_the_old_or_the_new_content*",
    "store/test_s3.py::TestS3Objects::test_of_many_processes_one_creates",
    "store/test_s3.py::test_of_many_heirs_one_inherits",
    "store/test_ledger.py::test_killed_writers_leave_whole_sweeps",
    "numerics/test_jit.py::test_an_edited_kernel_starts_a_fresh_cache[[][!n]*",
    "numerics/test_jit.py::test_an_edited_kernel_starts_a_fresh_cache[[]numerics/v*",
    # More of the same mathematics.
    "physics/test_simulators_law.py::test_one_block_has_the_means_and_covariances_of_sgd[[]wide*",
    "physics/test_simulators_law.py::test_the_law_agrees_over_random_starts_too[[]wide*",
    "physics/test_simulators_law.py::test_engines_diverge_with_one_probability[[]0*",
    "physics/test_sgd_against_theory.py::test_regimes_describe_sgd_where_they_hold_and_only_there*wide*",
    "physics/test_sgd_against_theory.py::test_sgd_ends_at_the_noise_floor[[]40-40]",
    "simulators/test_bits.py::test_many_records_do_not_keep_a_run_from_stopping*",
    "simulators/test_bits.py::test_a_billion_steps_stop_at_once_and_go_on_where_they_were[[]S[23]*",
    "numerics/test_simd.py::test_numbers_and_vectors_of_either_width_agree_to_the_bit[[]erf_and_gauss]",
    "analysis/quantities/test_collapse.py::test_the_errors_of_exponents_are_their_scatter",
    "analysis/quantities/test_errors.py::*",
    "analysis/plots/test_save.py::test_files_do_not_depend_on_those_before",
    "figures/test_checks.py::test_the_numbers_come_out[[]rates]",
    "execution/test_conductor.py::test_a_damaged_sweep_stops_no_other_and_can_be_removed",
    "execution/test_conductor.py::test_reuse_in_many_blocks_is_reuse_in_one",
    "execution/test_conductor.py::test_another_regime_leaves_old_runs_reusable[[]mean_field]",
)


def slow_patterns(node: str) -> set[str]:
    """The patterns that a test fits; it is slow if there is one."""
    name = node.removeprefix("tests/")
    return {pattern for pattern in PATTERNS if fnmatchcase(name, pattern)}
