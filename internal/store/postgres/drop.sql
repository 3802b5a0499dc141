-- Takes back schema.sql, functions/ and triggers.sql: all that is the store's own. schema_version stays, and so does
-- whatever else was put into the schema.
DROP TRIGGER task_inserted ON {schema}.task;
DROP TRIGGER batch_stops ON {schema}.batch;
DROP TRIGGER schedule_declared ON {schema}.schedule;
DROP TRIGGER schedule_changed ON {schema}.schedule;
DROP TRIGGER schedule_deleted ON {schema}.schedule;
ALTER TABLE {schema}.task DROP CONSTRAINT "columns must be within their bounds";
ALTER TABLE {schema}.follow DROP CONSTRAINT "columns must be within their bounds";
DROP FUNCTION {schema}.acquire, {schema}.admit_to_batch, {schema}.advance, {schema}.apply_bulk, {schema}.apply_fold, {schema}.apply_step,
    {schema}.archive, {schema}.await, {schema}.backlog, {schema}.begin_waiting, {schema}.bulk_ask, {schema}.bulk_cancel, {schema}.bulk_cancel_followers, {schema}.bulk_revive, {schema}.count_ends, {schema}.decide_dependents, {schema}.look_at_predecessors, {schema}.unblock, {schema}.batch_stops, {schema}.can_roll_back, {schema}.cancel, {schema}.cancel_all_waiting,
    {schema}.cancel_batch, {schema}.cancel_follower, {schema}.cancel_rows, {schema}.cancel_waiting, {schema}.check_cron, {schema}.check_on_live, {schema}.claim_rows,
    {schema}.compact_length, {schema}.complete, {schema}.count_transition, {schema}.cron_value, {schema}.cron_values,
    {schema}.detach_partition, {schema}.digest_of, {schema}.drop_partition, {schema}.end_batch, {schema}.enqueue, {schema}.enqueue_result,
    {schema}.ensure_partition, {schema}.fit, {schema}.has_stopped, {schema}.hold, {schema}.hold_lease, {schema}.insert_followers, {schema}.insert_on_failed,
    {schema}.lease_lapsed, {schema}.limit_tries, {schema}.lock_batch, {schema}.lock_chunks, {schema}.lock_holders, {schema}.lock_schedule,
    {schema}.declare_limits, {schema}.limit_rooms, {schema}.blocking_failure, {schema}.choose_heads, {schema}.declare_sequences, {schema}.check_orphans, {schema}.find_orphans, {schema}.cancel_orphans, {schema}.move_rows, {schema}.find_orphan_sequences,
    {schema}.judge_orphans, {schema}.move_orphans,
    {schema}.promote_turns, {schema}.sequence_blocked, {schema}.sequence_cancel, {schema}.sequence_retry,
    {schema}.sequence_skip, {schema}.take_turns, {schema}.wanted_sequences,
    {schema}.kept_places, {schema}.limit_unnamed, {schema}.tenant_rooms, {schema}.spend_tenant_tokens, {schema}.returned_tokens,
    {schema}.merge_marks, {schema}.order_agent, {schema}.pause, {schema}.resume, {schema}.pause_chunks, {schema}.pause_schedule, {schema}.ping, {schema}.policy_interval, {schema}.promote_locks, {schema}.raise_conflict,
    {schema}.raise_lease_lost, {schema}.raise_named_lease_lost, {schema}.release_lease, {schema}.remove_schedule,
    {schema}.renew_lease, {schema}.replace_live, {schema}.replace_payload, {schema}.reopen_batch, {schema}.request_cancels, {schema}.requester, {schema}.reserve_start,
    {schema}.refill_tokens,
    {schema}.resume_chunks, {schema}.resume_schedule, {schema}.retry, {schema}.retry_batch, {schema}.revive, {schema}.revive_dependents, {schema}.revive_dependents_of, {schema}.revive_one,
    {schema}.rollback, {schema}.rollback_batch, {schema}.rollback_live, {schema}.schedule_changed,
    {schema}.schedule_declared, {schema}.schedule_deleted, {schema}.schedule_duration, {schema}.schedule_moment,
    {schema}.seal_batch, {schema}.set_max_payload, {schema}.settle_limits, {schema}.spend_tokens, {schema}.start_bulk, {schema}.start_first, {schema}.start_operation, {schema}.stop_bulk, {schema}.step_revive, {schema}.sum_batches,
    {schema}.sum_deltas, {schema}.take_complete, {schema}.take_locks, {schema}.take_pings, {schema}.task_fits, {schema}.task_inserted, {schema}.unfit,
    {schema}.wanted_limits, {schema}.weight, {schema}.with_rollback;
DROP VIEW {schema}.activities, {schema}.bulk_changes, {schema}.redactions, {schema}.orphans, {schema}.sequences, {schema}.chunk_plans, {schema}.chunk_passes, {schema}.tasks, {schema}.batches, {schema}.agents, {schema}.leases, {schema}.schedules;
DROP TABLE {schema}.task, {schema}.follow, {schema}.task_archive, {schema}.attempt, {schema}.batch, {schema}.batch_delta,
    {schema}.batch_gate_0, {schema}.batch_gate_1, {schema}.batch_gate_2, {schema}.batch_gate_3, {schema}.batch_gate_4,
    {schema}.batch_gate_5, {schema}.batch_gate_6, {schema}.batch_gate_7, {schema}.operation, {schema}.bulk_change, {schema}.audit,
    {schema}.agent, {schema}.lease, {schema}.policy, {schema}.setting, {schema}.secret, {schema}.removal,
    {schema}.schedule, {schema}.schedule_declaration, {schema}.schedule_declarer, {schema}.schedule_zone,
    {schema}.chunk_plan, {schema}.chunk_pass, {schema}.chunk_range, {schema}.chunk_declaration,
    {schema}.chunk_declarer, {schema}.type_limit, {schema}.limit_place, {schema}.limit_bucket, {schema}.tenant_bucket, {schema}.limit_token,
    {schema}.limit_declaration, {schema}.limit_declarer, {schema}.lock_holder, {schema}.lock_note,
    {schema}.sequence_holder, {schema}.sequence_note, {schema}.sequence_failure, {schema}.sequence_rule, {schema}.sequence_declaration,
    {schema}.sequence_declarer, {schema}.dependent, {schema}.dependency, {schema}.ended_note, {schema}.revived_note, {schema}.declaration, {schema}.declarer, {schema}.redaction, {schema}.activity, {schema}.type_pause;
DROP FUNCTION {schema}.sequence_left;
