-- 0013: when a cron entry is due, in a time zone.
-- compatible: 5

-- A cron entry is five bit masks: minutes 0-59, hours 0-23, days 1-31, months 1-12, weekdays 0-6 (0: Sunday).
-- day_or_weekday: days and weekdays were both restricted, and a day that one of them admits is enough.

-- The first day from from_day on that the masks admit; null when there is none within 50 years.
create function pgstage.cron_day(days bigint, months int, weekdays int, day_or_weekday boolean, from_day date)
returns date language plpgsql immutable parallel safe
as $$
declare
    day date := from_day;
    by_day boolean;
    by_weekday boolean;
begin
    while day < from_day + 18263 loop
        if (months >> extract(month from day)::int) & 1 = 0 then
            day := date_trunc('month', day::timestamp) + interval '1 month';
        else
            by_day := (days >> extract(day from day)::int) & 1 = 1;
            by_weekday := (weekdays >> extract(dow from day)::int) & 1 = 1;
            if (by_day and by_weekday) or (day_or_weekday and (by_day or by_weekday)) then
                return day;
            end if;
            day := day + 1;
        end if;
    end loop;
    return null;
end
$$;

-- The first instant at which the clocks of a zone show `local` or later: a time that they skip is reached at the first
-- instant after the gap, one that they show twice in the first pass.
create function pgstage.first_instant(local timestamp, zone text) returns timestamptz language plpgsql stable parallel safe
as $$
declare
    hit timestamptz := local at time zone zone;      -- of two passes the later one; in a gap, some instant after it
    before timestamptz := hit - interval '25 hours'; -- before any change that matters here
    earlier timestamptz := (local - ((before at time zone zone) - (before at time zone 'UTC'))) at time zone 'UTC';
    low bigint;
    high bigint;
    middle bigint;
begin
    if earlier at time zone zone = local then
        return earlier;
    elsif hit at time zone zone = local then
        return hit;
    end if;
    low := extract(epoch from before);
    high := extract(epoch from hit);
    while high - low > 1 loop
        middle := (low + high) / 2;
        if to_timestamp(middle) at time zone zone >= local then
            high := middle;
        else
            low := middle;
        end if;
    end loop;
    return to_timestamp(high);
end
$$;

-- For an hour field that is full: every instant whose local minute matches, so both passes of an hour that comes twice.
create function pgstage.cron_next_minute(minutes bigint, days bigint, months int, weekdays int, day_or_weekday boolean,
                                         zone text, after timestamptz) returns timestamptz
language plpgsql stable parallel safe
as $$
declare
    local timestamp := after at time zone zone;
    hit timestamptz := after + (date_trunc('minute', local) + interval '1 minute' - local);
    begun timestamptz;
    day date;
begin
    loop
        local := hit at time zone zone;
        if day is distinct from local::date then
            day := pgstage.cron_day(days, months, weekdays, day_or_weekday, local::date);
        end if;
        if day is null then
            return null;
        elsif day > local::date then
            begun := pgstage.first_instant(day, zone);
            if begun <= hit then -- the day has begun, and was left again
                begun := greatest(day::timestamp at time zone zone, hit + interval '1 minute');
            end if;
            hit := begun;
        elsif (minutes >> extract(minute from local)::int) & 1 = 1 then
            return hit;
        else
            hit := hit + interval '1 minute';
        end if;
    end loop;
end
$$;

-- The first tick after an instant; null when there is none within 50 years. With hours named, each local time that matches
-- counts once a day: see first_instant. It never goes back as local times go on, so the first match that is later is it.
create function pgstage.cron_next(minutes bigint, hours int, days bigint, months int, weekdays int,
                                  day_or_weekday boolean, zone text, after timestamptz) returns timestamptz
language plpgsql stable parallel safe
as $$
declare
    local timestamp := after at time zone zone;
    day date;
    reached timestamp;
    hit timestamptz;
begin
    if hours & 16777215 = 16777215 then
        return pgstage.cron_next_minute(minutes, days, months, weekdays, day_or_weekday, zone, after);
    end if;
    day := pgstage.cron_day(days, months, weekdays, day_or_weekday, local::date);
    while day is not null loop
        for hour in 0 .. 23 loop
            continue when (hours >> hour) & 1 = 0 or day + make_time(hour, 59, 0) <= local;
            for minute in 0 .. 59 loop
                continue when (minutes >> minute) & 1 = 0;
                reached := day + make_time(hour, minute, 0);
                continue when reached <= local;
                hit := pgstage.first_instant(reached, zone);
                if hit > after then
                    return hit;
                end if;
            end loop;
        end loop;
        day := pgstage.cron_day(days, months, weekdays, day_or_weekday, day + 1);
    end loop;
    return null;
end
$$;
