-- Runs tasks again whose own period is over; see pgstage.run_periods.
-- $1 int: at most      columns: started
select pgstage.run_periods($1::int) as started;
