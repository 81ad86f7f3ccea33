"""Words that decide which word of a phrase is inflected."""

from __future__ import annotations

# After a first word these make a phrase of which the first word is inflected, and at the end of a
# phrase they have no forms: look up, lean against, ride a bike, take care of, wait until.
_FUNCTION_WORDS = """
    a an the this that these those some any no all both each every another
    my your his her its our their one's oneself myself yourself himself herself itself ourselves
    yourselves themselves me you him it us them
    aboard about above across after against ahead along alongside amid among amongst apart around as
    aside at away back backward backwards before behind below beneath beside besides between beyond
    by despite down downhill downstairs downward downwards during except for forth forward forwards
    from home in indoors inside instead into like near nearby next of off on onto opposite out
    outdoors outside over overboard past per since than through throughout till to together toward
    towards under underneath underwater until unto up uphill upon upright upside upstairs upward
    upwards via while with within without
    again alone aloud and not here there together well
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())

# Nouns before nouns (ice cream), although there are verbs like them.
_NOUNS = """
    air baby back bag band bar bath beach bed bird board boat body book bottle bow box bus butter
    cake can car cat chain chicken coat corn corner cow cup dog egg eye face farm finger fire fish
    floor flower foot frame fruit garden ghost glass gold grass ground group hand head heart horse
    house ice iron jet knife land light lip market mass milk moon mountain mouth nail net oil
    orange paper park party pen phone picnic pig pipe plant police pool pot powder rail rain ring
    road rock roller room rope salt sand school sea shell ship shoulder silver skate skin sky snow
    soap soldier spring stage star stone storm street sugar summer sun table tape taxi tea team
    telephone tennis thumb time tooth tower town toy traffic train tree truck tube wall water wave
    wheel wind window wine winter wood wool yard
"""
NOUNS = frozenset(_NOUNS.split())

# Adjectives that are verbs as well: open a door, dry hair.
_VERBS_AND_ADJECTIVES = """
    blow break clean clear close cool cut dry empty lean open shut slow smooth tidy warm
"""
VERBS_AND_ADJECTIVES = frozenset(_VERBS_AND_ADJECTIVES.split())

# Verbs that make a verb with a noun before them: ice skated, rock climbing.
_ACTIVITIES = """
    board check climb cook dance dive fish hike hunt jump kick paint race ride sail shop sit skate
    ski surf swim walk wash watch wrestle
"""
ACTIVITIES = frozenset(_ACTIVITIES.split())

# Nouns that are spelled like a form of a verb of another meaning.
NOUNS_IN_ING = frozenset({"being", "evening", "stocking"})
