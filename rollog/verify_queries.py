"""What must hold between the records of a log, as questions to an index of it: each answers with place and words.

They ask for what is wrong. What is merely not there yet, of a log that is still being written, answers none of them.
"""

Finding = tuple[str, int, str]

QUERIES: dict[str, str] = {
    "cause": """
        SELECT e.place, 'caused by ' || e.cause || ', which is not on the log' FROM events e
        WHERE e.cause != '' AND NOT EXISTS (SELECT 1 FROM events c WHERE c.id = e.cause)
        AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.place = e.place AND b.number NOTNULL)
    """,
    "undecodable": """
        SELECT u.place, u.error || '; no dead letter is about it' FROM undecodable u
        WHERE NOT EXISTS (SELECT 1 FROM letters l WHERE l.origin = u.place)
    """,
    "unissued": """
        SELECT e.place, 'a ' || e.kind || ' of task ' || e.task || ', which nobody issued' FROM events e
        WHERE e.task != '' AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.task = e.task)
        AND NOT EXISTS (SELECT 1 FROM letters l WHERE l.origin = e.place)
        AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.task = e.task AND b.number NOTNULL)
    """,
    "end": """
        SELECT max(place), 'task ' || task || ' ends ' || count(DISTINCT end) || ' times: '
        || group_concat(DISTINCT what) FROM (
            SELECT place, task, id AS end, 'batch ' || id AS what FROM batches WHERE NOT rebuilt
            UNION ALL SELECT place, task, id, 'decision ' || reason FROM decisions WHERE stage = 'assembler'
            UNION ALL SELECT l.place, t.task, 'letter', 'dead letter' FROM letters l JOIN tasks t ON t.place = l.origin
        ) GROUP BY task HAVING count(DISTINCT end) > 1
    """,
    "turn": """
        SELECT r.place, 'rollout ' || r.task || '/' || r.sample || ' ended after ' || r.num_turns
        || ' turns, but not all are on the log' FROM rollouts r WHERE r.num_turns > (
            SELECT count(DISTINCT e.turn) FROM events e
            WHERE e.task = r.task AND e.task != '' AND e.sample = r.sample AND e.kind = 'turn_generated'
        )
    """,
    "reward": """
        SELECT coalesce(w.place, b.place), 'rollout ' || b.task || '/' || r.sample || CASE
            WHEN w.place IS NULL THEN ' is in a batch, but has no reward of scoring ' || b.scoring
            ELSE ': the reward is ' || coalesce(w.value, 'invalid') || ', but batch ' || b.id || ' has ' || r.reward END
        FROM batches b JOIN batch_rows r ON r.place = b.place LEFT JOIN rewards w ON w.place = (
            SELECT min(f.place) FROM rewards f WHERE f.task = b.task AND f.sample = r.sample AND f.scoring = b.scoring
        ) WHERE w.value IS NOT r.reward AND b.number IS NULL
    """,
    "advantage": """
        SELECT b.place, 'rollout ' || b.task || '/' || r.sample || ': advantage ' || r.advantage
        || ', but its reward less the mean is ' || (r.reward - m.mean)
        FROM batches b JOIN batch_rows r ON r.place = b.place
        JOIN (SELECT place, avg(reward) AS mean FROM batch_rows GROUP BY place) m ON m.place = b.place
        WHERE abs(r.advantage - r.reward + m.mean) > 1e-6
    """,
    "reward of a decision": """
        SELECT d.place, 'task ' || d.task || ': its ' || d.num_valid || ' valid rewards have mean ' || avg(w.value)
        || ', but the decision says ' || d.reward_mean FROM decisions d JOIN rewards w ON w.task = d.task
        WHERE d.stage = 'assembler' AND w.scoring = (
            SELECT t.scoring FROM tasks t WHERE t.task = d.task ORDER BY t.place LIMIT 1
        ) AND w.value NOTNULL AND w.place = (
            SELECT min(f.place) FROM rewards f WHERE f.task = w.task AND f.sample = w.sample AND f.scoring = w.scoring
        ) GROUP BY d.place HAVING count(*) = d.num_valid AND abs(avg(w.value) - d.reward_mean) > 1e-6
    """,
    "verifier": """
        SELECT w.place, 'rollout ' || w.task || '/' || w.sample || ' was scored by ' || w.config
        || ', but its task asks for ' || t.verifier FROM rewards w JOIN tasks t ON t.task = w.task
        WHERE w.scoring = t.scoring AND w.config != t.verifier
    """,
    "trained twice": """
        SELECT max(step_place), 'batch ' || batch || ' was trained on in steps ' || group_concat(DISTINCT step)
        || ' of run ' || run FROM trained GROUP BY run, batch
        HAVING count(DISTINCT step) > 1 OR count(DISTINCT step_place || '/' || number) > count(DISTINCT step_place)
    """,
    "batch": """
        SELECT t.step_place, 'step ' || t.step || ' of run ' || t.run || ' trained on batch ' || t.batch
        || ' at {place}: ' || CASE WHEN b.id IS NULL THEN 'no batch is there'
        WHEN b.id != t.batch THEN 'now ' || b.id || ' is there'
        ELSE 'its digest was ' || t.digest || ', now it is ' || b.digest END, t.batch_place
        FROM trained t LEFT JOIN batches b ON b.place = t.batch_place
        WHERE b.id IS NULL OR b.id != t.batch OR b.digest != t.digest
    """,
    "step": """
        SELECT place, 'step ' || step || ' of run ' || run || ' follows on ' || before || ': those between are missing'
        FROM (SELECT place, run, step, lag(step) OVER (PARTITION BY run ORDER BY step, place) AS before FROM steps)
        WHERE step > coalesce(before, step) + 1
    """,
    "forked step": """
        SELECT max(place), 'step ' || step || ' of run ' || run || ' has ' || count(DISTINCT weights_out) || ' results'
        FROM steps GROUP BY run, step HAVING count(DISTINCT weights_out) > 1
    """,
    "weights": """
        SELECT s.place, 'step ' || s.step || ' of run ' || s.run || ' started from ' || s.weights_in || ', but '
        || 'step ' || b.step || ' made ' || b.weights_out FROM steps s
        JOIN steps b ON b.run = s.run AND b.step = s.step - 1 WHERE b.weights_out != s.weights_in
        UNION SELECT s.place, 'step ' || s.step || ' of run ' || s.run || ' started from ' || s.weights_in
        || ', but version ' || p.version || ' of ' || p.policy || ' is ' || p.digest FROM steps s
        JOIN policies p ON p.run = s.run AND p.policy = s.policy AND p.version = s.version_in
        WHERE p.digest != s.weights_in
    """,
    "restored": """
        SELECT s.place, 'step ' || s.step || ' of run ' || s.run || ' went back to version ' || s.restored
        || ', but made ' || s.weights_out || CASE WHEN p.place IS NULL THEN ', and no such version is known'
        ELSE ', and that version is ' || p.digest END FROM steps s
        LEFT JOIN policies p ON p.run = s.run AND p.policy = s.policy AND p.version = s.restored
        WHERE s.restored NOTNULL AND p.digest IS NOT s.weights_out
        UNION SELECT s.place, 'step ' || s.step || ' of run ' || s.run || ' went back, and trained too' FROM steps s
        WHERE s.restored NOTNULL AND EXISTS (SELECT 1 FROM trained t WHERE t.step_place = s.place)
    """,
    "policy digest": """
        SELECT p.place, 'version ' || p.version || ' of ' || p.policy || ' is ' || p.digest || ', but step ' || s.step
        || ' of run ' || s.run || ' made ' || s.weights_out FROM policies p
        JOIN steps s ON s.run = p.run AND s.policy = p.policy AND s.version_out = p.version
        WHERE s.weights_out != p.digest
    """,
    "policy": """
        SELECT p.place, 'version ' || p.version || ' of ' || p.policy || ' of run ' || p.run || ' was made by no step'
        FROM policies p WHERE p.parent NOTNULL AND NOT EXISTS (
            SELECT 1 FROM steps s WHERE s.run = p.run AND s.policy = p.policy AND s.version_out = p.version
        )
    """,
    "parent": """
        SELECT p.place, 'version ' || p.version || ' of ' || p.policy || ': its parent ' || p.parent || ' is not known'
        FROM policies p WHERE p.parent NOTNULL
        AND NOT EXISTS (SELECT 1 FROM policies q WHERE q.policy = p.policy AND q.version = p.parent AND q.run = p.run)
        AND NOT EXISTS (
            SELECT 1 FROM steps s WHERE s.run = p.run AND s.policy = p.policy AND s.version_out = p.parent
        )
    """,
    "version": """
        SELECT (
            SELECT min(d.place) FROM drawn d WHERE d.policy = v.policy AND d.low <= v.version AND d.high >= v.version
        ), 'tokens name version ' || v.version || ' of ' || v.policy || ', which was never published' FROM (
            SELECT policy, low AS version FROM drawn UNION SELECT policy, high FROM drawn
        ) v WHERE NOT EXISTS (SELECT 1 FROM policies p WHERE p.policy = v.policy AND p.version = v.version)
    """,
}
"""By kind of finding."""

ABSENCE = ("cause", "unissued", "turn", "reward", "step", "policy", "parent", "version")
"""Kinds that a log whose beginning was trimmed away cannot but have: what they miss may lie there."""

STRICT: dict[str, str] = {
    "open": """
        SELECT t.place, 'task ' || t.task || ' has not ended' FROM tasks t
        WHERE NOT EXISTS (SELECT 1 FROM batches b WHERE b.task = t.task AND NOT b.rebuilt)
        AND NOT EXISTS (SELECT 1 FROM decisions d WHERE d.task = t.task AND d.stage = 'assembler')
        AND NOT EXISTS (SELECT 1 FROM letters l WHERE l.origin = t.place)
    """,
    "repeat": """
        SELECT e.place, 'a repeat of ' || e.id FROM events e
        WHERE EXISTS (SELECT 1 FROM events f WHERE f.id = e.id AND f.place < e.place)
    """,
    "twin": """
        SELECT max(place), 'rollout ' || task || '/' || sample || ' ends in two ways: ' || group_concat(DISTINCT why)
        FROM rollouts GROUP BY task, sample
        HAVING count(DISTINCT why || '/' || num_turns || '/' || num_tokens) > 1
        UNION ALL SELECT max(place), 'batch ' || id || ' has ' || count(DISTINCT digest) || ' contents'
        FROM batches GROUP BY id HAVING count(DISTINCT digest) > 1
    """,
    "put aside": """
        SELECT u.place, u.error FROM undecodable u WHERE EXISTS (SELECT 1 FROM letters l WHERE l.origin = u.place)
    """,
}
"""What is no fault, since of one id the first event counts, but tells of kills; a quiet run that is over has none."""

UPSTREAM: dict[str, str] = {
    "cause": """
        SELECT e.place, 'caused by ' || e.cause || ', which is not on the log forked from, ' || ?1
        FROM main.batches b JOIN main.events e ON e.place = b.place
        WHERE b.number NOTNULL AND NOT EXISTS (SELECT 1 FROM upstream.events c WHERE c.id = e.cause)
    """,
    "unissued": """
        SELECT b.place, 'a batch of task ' || b.task || ', which nobody issued on the log forked from, ' || ?1
        FROM main.batches b
        WHERE b.number NOTNULL AND NOT EXISTS (SELECT 1 FROM upstream.tasks t WHERE t.task = b.task)
    """,
    "reward": """
        SELECT b.place, 'rollout ' || b.task || '/' || r.sample || ': batch ' || b.id || ' has reward ' || r.reward
        || ', but on the log forked from, ' || ?1 || ', it is ' || coalesce(w.value, 'not there')
        FROM main.batches b JOIN main.batch_rows r ON r.place = b.place LEFT JOIN upstream.rewards w ON w.place = (
            SELECT min(f.place) FROM upstream.rewards f
            WHERE f.task = b.task AND f.sample = r.sample AND f.scoring = b.scoring
        ) WHERE b.number NOTNULL AND w.value IS NOT r.reward
    """,
}
"""By kind of finding: what a fork's batches must have on the log forked from, whose index is there as `upstream`."""

COUNTS: dict[str, str] = {
    "tasks": "SELECT count(DISTINCT task) FROM tasks",
    "open": f"SELECT count(*) FROM ({STRICT['open']})",  # noqa: S608 own words
    "repeats": "SELECT count(*) - count(DISTINCT id) FROM events",
    "put_aside": f"SELECT count(*) FROM ({STRICT['put aside']})",  # noqa: S608 own words
    "steps": "SELECT count(DISTINCT run || '/' || step) FROM steps",
    "trained": "SELECT count(DISTINCT run || '/' || batch) FROM trained",
    "policies": "SELECT count(*) FROM policies",
}
