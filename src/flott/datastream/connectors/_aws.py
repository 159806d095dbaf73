"""What connectors of Amazon's services have in common: the properties of a client, with Flink's keys.

    aws.region                                      the region
    aws.endpoint                                    another address than Amazon's, for tests
    aws.credentials.provider.basic.accesskeyid      the access key, if the environment has none
    aws.credentials.provider.basic.secretkey        the secret key
    aws.credentials.provider.basic.sessiontoken     the token of a session
    aws.credentials.provider.profile.name           a profile of the shared credentials file
    aws.ca-bundle                                   the certificates to check the endpoint's with
"""

from __future__ import annotations

from collections.abc import Mapping

from flott.common._secrets import Properties


def aws_properties(properties: Mapping[str, object]) -> Properties:
    """Return properties whose text hides secrets."""
    return Properties({key: str(value) for key, value in properties.items()})
