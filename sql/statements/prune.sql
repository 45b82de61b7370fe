-- Forgets what is over and no longer to be kept: one step. See pgstage.prune_step.
-- $1 int: at most so many tasks, and so many failed runs      columns: more
select pgstage.prune_step($1::int) as more;
